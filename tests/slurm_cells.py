"""Cells that do next to nothing, for tests of what surrounds the work. Imported by jobs on nodes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellError, CellRecorder, training_cell

PATIENCE_SECONDS = 120


def train(folder: str) -> None:
    """Does what its configuration says: `ok`, `fail`, or `slow` until the file `release` is in the cell's folder."""
    cell = Cell(Path(folder))

    def work(recorder: CellRecorder) -> dict[str, str]:
        recorder.progress(1, 2)
        if cell.config["do"] == "fail":
            raise ValueError("the loss is nan")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while cell.config["do"] == "slow" and not (cell.folder / "release").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody released it")
            time.sleep(0.1)
        recorder.progress(2, 2)
        return {"model": "model"}

    work_on(cell, work)


def evaluate(folders: str) -> None:
    """As the real one: refuses to read a training that is not done."""
    for folder in folders.split(os.pathsep):
        cell = Cell(Path(folder))

        def work(recorder: CellRecorder, cell: Cell = cell) -> dict[str, object]:
            if training_cell(cell.root, cell.config["training"]).done() is None:
                raise CellError("the training is not done")
            return {"scores": {"task": {"ndcg_at_10": 0.5}}}

        work_on(cell, work)
