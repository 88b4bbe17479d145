"""The job of evaluation cells: several readings of one checkpoint in one process."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmk_experiments.datasets import mirrors_folder
from lmk_experiments.errors import WorkFailed
from lmk_experiments.jobs.references import real_suite
from lmk_experiments.jobs.startup import quick_imports, quiet_progress
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellError, CellRecorder, training_cell


class EvaluationsFailed(WorkFailed):
    """Some evaluations of a job failed; each one's cell holds its reason."""


def run_evaluations(folders: str) -> None:
    """Evaluate the cells in ``folders`` unless they are done: the function of an evaluation job.

    Readings of one training on one suite come one behind the other, and the later ones find their texts tokenized.

    Args:
        folders: cell folders joined by ``os.pathsep``, as in ``PATH``.

    Raises:
        EvaluationsFailed: at least one failed; the others were tried all the same.
    """
    failed = []
    every = folders.split(os.pathsep)
    for tokens, cells in _together([Cell(Path(folder)) for folder in every]):
        for cell in cells:
            try:
                _run_evaluation(cell, tokens if len(cells) > 1 else None)
            except Exception as error:  # noqa: BLE001 - recorded in its cell; the other readings need not wait for it
                traceback.print_exc()
                failed.append(f"{cell.id}: {error}")
        if tokens is not None and all(cell.done() is not None for cell in cells):
            shutil.rmtree(tokens, ignore_errors=True)
    if failed:
        raise EvaluationsFailed(f"{len(failed)} of {len(every)} evaluations failed: {'; '.join(failed)}")


def _together(cells: list[Cell]) -> Iterator[tuple[Path | None, list[Cell]]]:
    """The cells in groups of one training and one suite, and where a group keeps its tokens.

    A cell that can't be read is a group of its own: it fails when it is run, and no other does.
    """
    groups: dict[Any, tuple[Path | None, list[Cell]]] = {}
    for cell in cells:
        try:
            config = cell.config
            suite = json.dumps([config["suite"], config["max_length"]], sort_keys=True)
            place = cell.root / "tokens" / f"{config['training']}-{hashlib.sha256(suite.encode()).hexdigest()[:12]}"
            groups.setdefault(place, (place, []))[1].append(cell)
        except (ValueError, KeyError, TypeError):
            groups[cell.folder] = (None, [cell])
    yield from groups.values()


def _run_evaluation(cell: Cell, tokens: Path | None) -> None:
    work_on(cell, lambda recorder: {"scores": _evaluate(cell, recorder, tokens)})


def _evaluate(cell: Cell, recorder: CellRecorder, tokens: Path | None) -> dict[str, dict[str, float]]:
    with quick_imports():
        from lmk_core.pooling import PoolingConfig
        from lmk_eval import Settings, evaluate
        from lmk_eval.suites import Suite
    quiet_progress()

    config = cell.config
    training = training_cell(cell.root, config["training"])
    done = training.done()
    if done is None:
        raise CellError(f"{training.folder} is not done, so there is nothing to evaluate yet")
    return evaluate(
        training.folder / done["model"],
        Suite.model_validate(real_suite(config["suite"], cell.root)),
        folder=cell.folder,
        name=f"lmk/{training.id}",
        revision=cell.id,
        max_length=config["max_length"],
        pooling=PoolingConfig.from_dict(config["pooling"]),
        recorder=recorder,
        settings=Settings(
            mirrors=mirrors_folder(cell.root),
            tokens=tokens,
            storage=config.get("storage", "float32"),
            weights=config.get("weights", "float32"),
        ),
    )
