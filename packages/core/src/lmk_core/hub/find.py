"""Files of a model that is a folder here or a repository on the Hub."""

from __future__ import annotations

from pathlib import Path


def find_file(name_or_path: str, file: str, revision: str | None = None) -> Path | None:
    """A file of a folder or of a repository on the Hub, or None if it has no such file.

    Without the Hub, the cache decides. That a file is not in it means nothing while the Hub could be asked; in offline
    mode nobody can be, and a repository is what is cached of it, be it nothing.

    Raises:
        OSError: there is no such repository or revision, access to it is refused, or whether it has the file is not
            known because the Hub does not answer.
    """
    if Path(name_or_path).is_dir():
        path = Path(name_or_path) / file
        return path if path.is_file() else None
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name_or_path, file, revision=revision))
    except LocalEntryNotFoundError as error:
        if constants.is_offline_mode() or _was_absent(name_or_path, file, revision):
            return None
        raise OSError(
            f"{name_or_path}: whether it has {file} can't be found out (HF_HUB_OFFLINE=1 takes what is cached of it "
            f"for the whole): {error}"
        ) from error
    except EntryNotFoundError:
        return None
    except (HfHubHTTPError, HFValidationError) as error:
        named = name_or_path if revision is None else f"{name_or_path}, revision {revision}"
        raise OSError(f"{named}: no folder here, and no model of the Hub that can be read: {error}") from error


def _was_absent(name: str, file: str, revision: str | None) -> bool:
    """Whether the Hub has said before that this revision has no such file."""
    from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache

    return try_to_load_from_cache(name, file, revision=revision) is _CACHED_NO_EXIST
