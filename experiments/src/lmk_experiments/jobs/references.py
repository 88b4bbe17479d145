"""Symbolic references of a cell, made real on the machine that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_experiments.builders import is_builtin_reference, locate


def real(reference: str, root: Path) -> str:
    """``built:NAME/part`` as a path below ``root``; anything else as it is."""
    return str(locate(reference, root)) if is_builtin_reference(reference) else reference


def real_training(config: dict[str, Any], root: Path) -> dict[str, Any]:
    """A training's configuration with real paths."""
    data, model = config["data"], config["model"]
    validation = data.get("validation")
    return {
        **config,
        "model": {**model, "path": real(model["path"], root)},
        "data": {
            **data,
            "train": [real(path, root) for path in data["train"]],
            "validation": None if validation is None else real(validation, root),
        },
    }


def real_suite(suite: dict[str, Any], root: Path) -> dict[str, Any]:
    """A suite with real folders."""
    tasks = [{**task, "folder": real(task["folder"], root)} if task.get("folder") else task for task in suite["tasks"]]
    return {**suite, "tasks": tasks}
