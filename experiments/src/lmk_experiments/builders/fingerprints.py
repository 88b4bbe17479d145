"""Fingerprints of files and folders by their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmk_experiments.records.atomic import read_json, write_json

MEMORY = "fingerprints.json"


def content_fingerprint(path: Path, *, leave_out: Iterable[str] = ()) -> str:
    """Hex SHA-256 of a file's bytes, or of a folder's sorted relative names with the fingerprints of their files.

    Args:
        leave_out: relative names that don't count.

    Raises:
        OSError: the path isn't there or can't be read.
    """
    if not path.is_dir():
        return _file_digest(path)
    skipped = frozenset(leave_out)
    digest = hashlib.sha256()
    for name, file in _files(path):
        if name not in skipped:
            digest.update(f"{name}\0{_file_digest(file)}\n".encode())
    return digest.hexdigest()


def remembered_fingerprint(path: Path, root: Path) -> str | None:
    """The fingerprint of a file or folder of the user's; None when there is none at ``path``.

    The content is read once. The result is kept in ``root/fingerprints.json`` and used as long as every file has the
    same size and the same time of change, so that an edited file is noticed and a large unchanged one isn't read again.
    """
    path = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - resolve() would follow links, which may be moved
    if not path.exists():
        return None
    state = _state(path)
    known = _remembered(root / MEMORY).get(str(path))
    if isinstance(known, dict) and known.get("state") == state and isinstance(known.get("sha256"), str):
        return known["sha256"]
    sha256 = content_fingerprint(path)
    if _state(path) == state:  # else it changed while it was read, and must be read again
        # Two writers at once may lose one entry, which then costs one more reading.
        memory = _remembered(root / MEMORY)
        write_json(root / MEMORY, {**memory, str(path): {"state": state, "sha256": sha256}})
    return sha256


def _remembered(file: Path) -> dict[str, Any]:
    try:
        memory = read_json(file)
    except ValueError:
        return {}
    return memory if isinstance(memory, dict) else {}


def _state(path: Path) -> str:
    """A digest of the names, sizes and times of change, without reading any content."""
    digest = hashlib.sha256()
    for name, file in _files(path) if path.is_dir() else [("", path)]:
        status = file.stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> list[tuple[str, Path]]:
    """All files below a folder with their relative names, sorted by name; links to files and folders are followed."""
    found = []
    for place, _, names in os.walk(folder, followlinks=True):
        for name in names:
            file = Path(place, name)
            found.append((file.relative_to(folder).as_posix(), file))
    return sorted(found)


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
