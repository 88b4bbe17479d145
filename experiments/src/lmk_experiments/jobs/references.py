"""Symbolic references of a cell, made real on the machine that runs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lmk_eval.suites import LOCAL_KINDS
from lmk_experiments.builders import is_builtin_reference, locate
from lmk_experiments.datasets import data_path, is_data_reference


def real(reference: str, root: Path) -> str:
    """``built:NAME/part`` and ``data:NAME/part`` as a path; anything else as it is.

    Raises:
        DataSetMissing: published data that is not on this machine.
    """
    if is_data_reference(reference):
        return str(data_path(reference, root))
    return str(locate(reference, root)) if is_builtin_reference(reference) else reference


def real_training(config: dict[str, Any], root: Path) -> dict[str, Any]:
    """A training's configuration with real paths; tokenized texts are kept below the root, for all its cells."""
    data, model = config["data"], config["model"]
    validation = data.get("validation")
    return {
        **config,
        "model": {**model, "path": real(model["path"], root)},
        "data": {
            **data,
            "train": [_real_set(entry, root) for entry in data["train"]],
            "validation": None if validation is None else real(validation, root),
            "cache": data.get("cache") or os.environ.get("LMK_CACHE") or str(root / "cache"),
        },
    }


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
