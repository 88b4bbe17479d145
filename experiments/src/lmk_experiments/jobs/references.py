"""Symbolic references of a cell, made real on the machine that runs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lmk_eval.suites import LOCAL_KINDS
from lmk_experiments.builders import is_builtin_reference, locate
from lmk_experiments.datasets import data_path, is_data_reference
from lmk_experiments.records import CellError, pretraining_cell
from lmk_experiments.records.cell import PRETRAINING_PREFIX


def real(reference: str, root: Path) -> str:
    """``built:NAME/part`` and ``data:NAME/part`` as a path; anything else as it is.

    Raises:
        DataSetMissing: published data that is not on this machine.
    """
    if is_data_reference(reference):
        return str(data_path(reference, root))
    return str(locate(reference, root)) if is_builtin_reference(reference) else reference


def real_training(config: dict[str, Any], root: Path) -> dict[str, Any]:
    """The configuration of a training or a pre-training with real paths; tokenized texts are kept below the root, for
    all its cells.

    Raises:
        CellError: the pre-training that it starts from is not done.
        DataSetMissing: published data that is not on this machine.
    """
    data, model = dict(config["data"]), config["model"]
    data["train"] = [_real_set(entry, root) for entry in data["train"]]
    if data.get("validation") is not None:
        data["validation"] = real(data["validation"], root)
    data["cache"] = data.get("cache") or os.environ.get("LMK_CACHE") or str(root / "cache")
    values = {**config, "model": {**model, "path": real(model["path"], root)}, "data": data}
    if config.get("init") is not None:
        values["init"] = str(_pretrained(config["init"], root))
    return values


def _pretrained(init: str, root: Path) -> Path:
    """The folder of the pre-training that a fine-tune starts from.

    Raises:
        CellError: it is not done.
    """
    cell = pretraining_cell(root, init.removeprefix(PRETRAINING_PREFIX))
    if cell.done() is None:
        raise CellError(f"{cell.folder} is not done, so there is nothing to start from yet")
    return cell.folder


def _real_set(entry: Any, root: Path) -> Any:
    """A data set with real paths."""
    if isinstance(entry, str):
        return real(entry, root)
    path = entry["path"]
    found = real(path, root) if isinstance(path, str) else [real(one, root) for one in path]
    return {**entry, "path": found}


def real_suite(suite: dict[str, Any], root: Path) -> dict[str, Any]:
    """A suite with real paths of own files."""
    tasks = [
        {**task, **{kind: real(task[kind], root) for kind in LOCAL_KINDS if task.get(kind)}} for task in suite["tasks"]
    ]
    return {**suite, "tasks": tasks}
