"""Files of a model that is a folder here or a repository on the Hub."""

from __future__ import annotations

from pathlib import Path


def find_file(name_or_path: str, file: str, revision: str | None = None) -> Path | None:
    """A file of a folder or of a repository on the Hub, or None if it has no such file.

    Without the Hub, the cache decides. That a file is not in it means nothing while the Hub could be asked; in offline
    mode nobody can be, and a repository is what is cached of it.

    Raises:
        OSError: there is no such repository or revision, access to it is refused, or whether it has the file is not
            known: the Hub does not answer, or nothing of it is cached.
    """
    if Path(name_or_path).is_dir():
        path = Path(name_or_path) / file
        return path if path.is_file() else None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name_or_path, file, revision=revision))
    except LocalEntryNotFoundError as error:
        if _is_known_to_lack(name_or_path, file, revision):
            return None
        raise OSError(f"{name_or_path}: {_why_unknown(file)}: {error}") from error
    except EntryNotFoundError:
        return None
    except (HfHubHTTPError, HFValidationError) as error:
        at = "" if revision is None else f", revision {revision}"
        raise OSError(
            f"{name_or_path}{at}: no folder here, and no model of the Hub that can be read: {error}"
        ) from error


def _is_known_to_lack(name: str, file: str, revision: str | None) -> bool:
    """Whether the cache says that a file does not exist, or is all that can be had of a repository."""
    from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache

    if try_to_load_from_cache(name, file, revision=revision) is _CACHED_NO_EXIST:
        return True
    return _is_offline() and isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)


def _why_unknown(file: str) -> str:
    if _is_offline():
        return "no folder here, and not in the cache of models"
    return f"whether it has {file} can't be found out (HF_HUB_OFFLINE=1 takes what is cached of it for the whole)"


def _is_offline() -> bool:
    from huggingface_hub import constants

    return constants.is_offline_mode()
