"""The files of checkpoints: whole or not there, two of them, and found out when they are damaged."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

_GB = 1e9


class CheckpointNotWrittenError(OSError):
    """The disk did not take a checkpoint; the message names the file and the room that is left. Those before stay."""


class DamagedCheckpointError(ValueError):
    """A checkpoint's bytes are not those that were written."""


class CheckpointFiles(TorchCheckpointIO):
    """Writes a checkpoint beside ``path``, and when it is whole on the disk renames it: the one before is then
    ``previous_of(path)``, and the one before that is gone. At most three files of its size are there at once.

    The draft goes to the disk as it is made: Lightning's own way holds all of it in memory first, and puts its draft
    into the folder of temporary files, which may be another, smaller disk.

    Attributes:
        failed: Why the last one could not be written; empty when it was. It is for the caller to raise, on all ranks:
            Lightning lets the others wait for the one that writes.
    """

    def __init__(self) -> None:
        self.failed = ""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:  # noqa: ARG002
        """As of Lightning, but that an error of the disk is kept in ``failed``."""
        self.failed = ""
        target = Path(path)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(checkpoint, draft)
            if target.exists():
                target.replace(previous_of(target))
            draft.replace(target)
            _flush_folder(target.parent)
        except Exception as error:
            cause = _of_the_disk(error)
            if cause is None:
                raise
            draft.unlink(missing_ok=True)  # before its room is counted
            self.failed = _told(target, cause)
        finally:
            draft.unlink(missing_ok=True)


def previous_of(path: Path) -> Path:
    """The checkpoint before that of ``path``."""
    return path.with_name(f"previous{path.suffix}")


def remove_drafts(path: Path) -> None:
    """Removes what a killed process has left of a checkpoint that it was writing: a folder has one training."""
    for draft in path.parent.glob(f".{path.name}.*"):
        draft.unlink(missing_ok=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What is in a checkpoint, plain values and tensors, when every byte is as it was written.

    Torch writes the CRC-32 of each tensor and does not look at it when it reads: a flipped bit would be trained on.

    Raises:
        DamagedCheckpointError: It is cut short, empty, no checkpoint, or some of it is not what was written.
        OSError: The disk did not give it; it may be whole.
        MemoryError: It may be whole, but there is no room for it.
    """
    # Opened here: torch's own reader of paths makes a RuntimeError of every error of the disk.
    with path.open("rb") as file:
        try:
            _check(file)
            file.seek(0)
            return torch.load(file, map_location="cpu", weights_only=True)
        except MemoryError:
            raise
        except Exception as error:
            # A damaged index can name a place before the beginning, which is no error of the disk.
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            if "can't allocate memory" in str(error):
                raise MemoryError(f"{path}: {error}") from error
            raise DamagedCheckpointError(f"{type(error).__name__}: {error}"[:500]) from error


def set_aside(path: Path) -> Path:
    """Renames a damaged checkpoint, so that the next one does not overwrite what could still be looked into. There is
    one such file at most."""
    return path.replace(path.with_name(f"{path.name}.unreadable"))


def _check(file: BinaryIO) -> None:
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise DamagedCheckpointError(f"{damaged} is not as it was written (CRC-32)")


def _write(checkpoint: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())  # else a crash of the machine can leave an empty file under the final name


def _flush_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system knows how
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _of_the_disk(error: BaseException) -> OSError | None:
    """The error of the disk that ``error`` is or came from: torch raises its own about it."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__
    return found


def _told(path: Path, error: OSError) -> str:
    free, kept, advice = "", "", ""
    with contextlib.suppress(OSError):
        free = f", with {shutil.disk_usage(path.parent).free / _GB:.3f} GB free there"
    if path.exists():
        kept = f". The one before, of {path.stat().st_size / _GB:.3f} GB, is whole"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = ". Make room for two more of that size, and start again"
    return f"{path}: this checkpoint could not be written ({error.strerror or error}){free}{kept}{advice}"
