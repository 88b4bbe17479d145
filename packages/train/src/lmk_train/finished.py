"""The mark of a finished model: ``TRAINED.json`` beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lmk_train.config import AnyConfig
from lmk_train.config.resumable import digest

MARKER = "TRAINED.json"


def is_finished(config: AnyConfig, folder: Path) -> bool:
    """Whether ``folder/model`` is whole and was trained by ``config``."""
    try:
        marked = json.loads((folder / MARKER).read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(marked, dict) and marked.get("config") == digest(config) and (folder / "model").is_dir()


def mark_finished(config: AnyConfig, folder: Path) -> None:
    """Says that ``folder/model`` is whole: after this its checkpoints are not needed any more.

    The model is flushed to the disk first: no crash of the machine leaves a mark beside files that are empty.
    """
    for path in sorted((folder / "model").rglob("*")):
        if path.is_file():
            _flush(path)
    temporary = folder / f".{MARKER}.{os.getpid()}"
    try:
        temporary.write_text(json.dumps({"schema": 1, "config": digest(config)}) + "\n", encoding="utf-8")
        _flush(temporary)
        temporary.replace(folder / MARKER)
    finally:
        temporary.unlink(missing_ok=True)


def remove_mark(folder: Path) -> None:
    """Before the model is replaced: the mark of another configuration must not outlive that one's model."""
    (folder / MARKER).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
