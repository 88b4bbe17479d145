"""Symbolic references of a cell, made real on the machine that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_eval.suites import LOCAL_KINDS
from lmk_experiments.builders import is_builtin_reference, locate
from lmk_experiments.datasets import data_files, data_path, is_data_reference


def real(reference: str, root: Path) -> str:
    """``built:NAME/part`` and ``data:NAME/part`` as a path; anything else as it is.

    Raises:
        DataSetMissing: published data that is not on this machine.
    """
    if is_data_reference(reference):
        return str(data_path(reference, root))
    return str(locate(reference, root)) if is_builtin_reference(reference) else reference


def real_files(reference: str, root: Path) -> list[str]:
    """The files of a reference: several where ``data:NAME`` names a folder."""
    if is_data_reference(reference):
        return [str(file) for file in data_files(reference, root)]
    return [real(reference, root)]


def real_training(config: dict[str, Any], root: Path) -> dict[str, Any]:
    """A training's configuration with real paths."""
    data, model = config["data"], config["model"]
    validation = data.get("validation")
    return {
        **config,
        "model": {**model, "path": real(model["path"], root)},
        "data": {
            **data,
            "train": [file for path in data["train"] for file in real_files(path, root)],
            "validation": None if validation is None else real(validation, root),
        },
    }


def real_suite(suite: dict[str, Any], root: Path) -> dict[str, Any]:
    """A suite with real paths of own files."""
    tasks = [
        {**task, **{kind: real(task[kind], root) for kind in LOCAL_KINDS if task.get(kind)}} for task in suite["tasks"]
    ]
    return {**suite, "tasks": tasks}
