"""The job of evaluation cells: several readings of one checkpoint in one process."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

from lmk_experiments.errors import WorkFailed
from lmk_experiments.jobs.references import real_suite
from lmk_experiments.jobs.startup import quick_imports, quiet_progress
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellError, CellRecorder, training_cell


class EvaluationsFailed(WorkFailed):
    """Some evaluations of a job failed; each one's cell holds its reason."""


def run_evaluations(folders: str) -> None:
    """Evaluate the cells in ``folders`` unless they are done: the function of an evaluation job.

    Args:
        folders: cell folders joined by ``os.pathsep``, as in ``PATH``.

    Raises:
        EvaluationsFailed: at least one failed; the others were tried all the same.
    """
    failed = []
    every = folders.split(os.pathsep)
    for folder in every:
        try:
            _run_evaluation(Cell(Path(folder)))
        except Exception as error:  # noqa: BLE001 - recorded in its cell; the other readings need not wait for it
            traceback.print_exc()
            failed.append(f"{Path(folder).name}: {error}")
    if failed:
        raise EvaluationsFailed(f"{len(failed)} of {len(every)} evaluations failed: {'; '.join(failed)}")


def _run_evaluation(cell: Cell) -> None:
    def work(recorder: CellRecorder) -> dict[str, Any]:
        with quick_imports():
            from lmk_core.pooling import PoolingConfig
            from lmk_eval import evaluate
            from lmk_eval.suites import Suite
        quiet_progress()

        config = cell.config
        training = training_cell(cell.root, config["training"])
        done = training.done()
        if done is None:
            raise CellError(f"{training.folder} is not done, so there is nothing to evaluate yet")
        scores = evaluate(
            training.folder / done["model"],
            Suite.model_validate(real_suite(config["suite"], cell.root)),
            folder=cell.folder,
            name=f"lmk/{training.id}",
            revision=cell.id,
            max_length=config["max_length"],
            pooling=PoolingConfig.from_dict(config["pooling"]),
            recorder=recorder,
        )
        return {"scores": scores}

    work_on(cell, work)
