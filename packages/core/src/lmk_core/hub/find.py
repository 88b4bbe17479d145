"""Files of a model that is a folder here or a repository on the Hub."""

from __future__ import annotations

from pathlib import Path


def find_file(name_or_path: str, file: str, revision: str | None = None) -> Path | None:
    """A file of a folder or of a repository on the Hub, or None if it has no such file."""
    if Path(name_or_path).is_dir():
        path = Path(name_or_path) / file
        return path if path.is_file() else None
    from transformers.utils import cached_file

    found = cached_file(
        name_or_path,
        file,
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
    )
    return None if found is None else Path(str(found))
