"""The mark of a finished model: ``TRAINED.json`` beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lmk_train.config import AnyConfig
from lmk_train.config.resumable import described, differences, digest

MARKER = "TRAINED.json"


class OtherModelError(ValueError):
    """A folder holds the finished model of another configuration than the one that would be trained into it."""


def is_finished(config: AnyConfig, folder: Path) -> bool:
    """Whether ``folder/model`` is whole and was trained by ``config``."""
    return _mark(folder).get("config") == digest(config)


def refuse_other(config: AnyConfig, folder: Path) -> None:
    """A finished model is never replaced by another configuration's.

    Raises:
        OtherModelError: ``folder`` holds one; the message lists what differs.
    """
    mark = _mark(folder)
    if "config" not in mark or mark["config"] == digest(config):
        return
    theirs = mark.get("described")  # a mark of before has none
    listed = differences(theirs, described(config)) if isinstance(theirs, dict) else []
    raise OtherModelError(
        f"{folder / 'model'}: this is the finished model of another configuration"
        f"{' (' + '; '.join(listed) + ')' if listed else ''}; use another folder, or remove it and "
        f"{folder / MARKER} to train over it"
    )


def _mark(folder: Path) -> dict[str, Any]:
    """What marks ``folder/model``; empty where there is no mark that can be read, or no model."""
    try:
        marked = json.loads((folder / MARKER).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return marked if isinstance(marked, dict) and (folder / "model").is_dir() else {}


def mark_finished(config: AnyConfig, folder: Path) -> None:
    """Says that ``folder/model`` is whole: after this its checkpoints are not needed any more.

    The model is flushed to the disk first: no crash of the machine leaves a mark beside files that are empty.
    """
    for path in sorted((folder / "model").rglob("*")):
        if path.is_file():
            _flush(path)
    temporary = folder / f".{MARKER}.{os.getpid()}"
    try:
        mark = {"schema": 1, "config": digest(config), "described": described(config)}
        temporary.write_text(json.dumps(mark) + "\n", encoding="utf-8")
        _flush(temporary)
        temporary.replace(folder / MARKER)
    finally:
        temporary.unlink(missing_ok=True)


def remove_mark(folder: Path) -> None:
    """Before a model is written: a mark that has lost its model must not come to stand for another one."""
    (folder / MARKER).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
