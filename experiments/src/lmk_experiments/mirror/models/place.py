"""Getting the files of a logged model to where the store keeps them, whole or not at all, and each only once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

    from lmk_experiments.mirror.store import Store

Files = dict[str, Path]
"""Paths in the logged model to the files here, ``MLmodel`` last: before it, nobody can load a part of a model."""
LINKED = ".safetensors"
"""Weights are never written in place: a training replaces its model's folder. What people may edit is copied."""
_UPLOADING = ".artifact.uploading."
"""MLflow hides files of this name."""
_UPLOAD_SECONDS = "900"
_SAY_FROM_BYTES = 20_000_000


def local_folder(store: Store, location: str) -> Path | None:
    """The folder that an artifact location is on this machine, or ``None`` where a server or a cloud keeps it."""
    from mlflow.utils.file_utils import local_file_uri_to_path

    # A server's folder is the server's, even where the path looks like one of here.
    if store.uri.startswith("http"):
        return None
    if "://" in location and not location.startswith("file:"):
        return None
    return Path(local_file_uri_to_path(location))


def can_link(file: Path, folder: Path) -> bool:
    """Whether a hard link to ``file`` can stand in ``folder``, which may not exist yet; asked by making one."""
    place = folder
    while not place.exists():
        place = place.parent
    probe = place / f"{_UPLOADING}probe.{os.getpid()}"
    try:
        os.link(file, probe)
    except OSError:
        return False
    probe.unlink()
    return True


def put_here(files: Files, folder: Path) -> None:
    """Put the files into a folder of this machine: weights as hard links where that is possible, the rest as copies.

    A link needs no disk, and neither of the two names depends on the other: what deletes one leaves the other whole.
    """
    for name, source in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == LINKED and target.exists() and target.samefile(source):
            continue
        draft = target.with_name(f"{_UPLOADING}{target.name}")
        draft.unlink(missing_ok=True)
        link_or_copy(source, draft)
        draft.replace(target)


def link_or_copy(source: Path | str, target: Path | str) -> None:
    """Make ``target``, which is not there yet: of weights a hard link where that is possible, else a copy."""
    if Path(source).suffix == LINKED:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)


def upload(store: Store, logged: LoggedModel, files: Files, say: Callable[[str], None]) -> None:
    """Send the files through the store's own interface, one stream a file; large ones that are there stay.

    A file is there when it is whole: servers publish it at its end.
    """
    held = dict(_held(store, logged.model_id, None))
    with _patience():
        for name, source in files.items():
            size = source.stat().st_size
            if source.suffix == LINKED and held.get(name) == size:
                continue
            if size >= _SAY_FROM_BYTES:
                say(f"  uploading {source.name}, {size / 1e6:,.0f} MB")
            folder = name.rpartition("/")[0]
            store.client.log_model_artifact(logged.model_id, str(source), folder or None)


def remove(store: Store, logged: LoggedModel) -> None:
    """Take a logged model that another one has replaced out of the store, with its files."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    store.client.delete_logged_model(logged.model_id)
    folder = local_folder(store, logged.artifact_location)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        get_artifact_repository(logged.artifact_location, tracking_uri=store.uri).delete_artifacts()


def _held(store: Store, model_id: str, folder: str | None) -> Iterator[tuple[str, int]]:
    """Every file that the store has of a model, with its size."""
    for info in store.client.list_logged_model_artifacts(model_id, folder):
        if info.is_dir:
            yield from _held(store, model_id, info.path)
        else:
            yield info.path, int(info.file_size or 0)


@contextmanager
def _patience() -> Generator[None]:
    """A server that passes 600 MB on to a cloud answers late."""
    name = "MLFLOW_HTTP_REQUEST_TIMEOUT"
    before = os.environ.get(name)
    os.environ[name] = max(before or "0", _UPLOAD_SECONDS, key=int)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
