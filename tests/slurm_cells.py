"""Cells that do next to nothing, for tests of what surrounds the work. Imported by jobs on nodes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from lmk_experiments.jobs import train as train_job
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellError, CellRecorder, training_cell
from lmk_train.ranks import FirstEnd, OtherEnd, RankFailedError

PATIENCE_SECONDS = 120


def train(folder: str) -> None:
    """Does what it is told: `ok`, `fail`, `memory` (fails once), or `slow` until there is a file `release`."""
    cell = Cell(Path(folder))

    def work(recorder: CellRecorder) -> dict[str, str]:
        recorder.progress(1, 2)
        if cell.config["do"] == "fail":
            raise ValueError("the loss is nan")
        if cell.config["do"] == "memory" and not (cell.folder / "failed").exists():
            (cell.folder / "failed").touch()
            raise MemoryError
        deadline = time.monotonic() + PATIENCE_SECONDS
        while cell.config["do"] == "slow" and not (cell.folder / "release").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody released it")
            time.sleep(0.1)
        recorder.progress(2, 2)
        return {"model": "model"}

    work_on(cell, work)


def train_together(folder: str) -> None:
    """The real job of a training, in which each rank does what the configuration says instead of training."""
    train_job._train = _rank
    train_job.run_training(folder)


def _rank(values: dict[str, Any], cell: Cell, recorder: CellRecorder | None, step: FirstEnd | OtherEnd | None) -> None:
    assert step is not None
    place, (rank, do) = step.place, (values["do"] or ":").split(":")
    with (cell.folder / f"rank-{place.rank}").open("a") as file:
        file.write(f"{place.rank} of {place.size} on {os.uname().nodename}, device {place.local_rank}\n")
    if isinstance(step, FirstEnd):
        assert recorder is not None
        step.listen(lambda failure: recorder.event("rank_failed", **failure.event()))
        recorder.event("start", nodes=sorted(set(step.everyone())), runtime=values["runtime"])
        (cell.folder / "model").mkdir(exist_ok=True)
    if rank == str(place.rank):
        if do == "raise":
            raise ValueError("the loss is nan")
        os.kill(os.getpid(), signal.SIGKILL)
    if rank and isinstance(step, FirstEnd):  # as where a collective hangs when a rank is gone
        failure = step.failure(PATIENCE_SECONDS)
        raise RankFailedError(str(failure))
    if rank:
        time.sleep(PATIENCE_SECONDS)


def evaluate(folders: str) -> None:
    """As the real one: refuses to read a training that is not done."""
    for folder in folders.split(os.pathsep):
        cell = Cell(Path(folder))

        def work(recorder: CellRecorder, cell: Cell = cell) -> dict[str, object]:
            if training_cell(cell.root, cell.config["training"]).done() is None:
                raise CellError("the training is not done")
            return {"scores": {"task": {"ndcg_at_10": 0.5}}}

        work_on(cell, work)


def train_in_steps(folder: str) -> None:
    """Tells a curve of ten steps, from the last one it has told on; waits in the middle for a file `release`."""
    cell = Cell(Path(folder))

    def work(recorder: CellRecorder) -> dict[str, object]:
        told = [line["step"] for line in cell.metrics()]
        for step in range(max(told, default=0) + 1, 11):
            recorder.metrics({"train/loss": 1 / step}, step)
            recorder.progress(step, 10)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while step == 5 and not (cell.folder / "release").exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("nobody released it")
                time.sleep(0.1)
        return {"model": "model", "metrics": {}}

    work_on(cell, work)
