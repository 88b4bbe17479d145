"""Cells that do next to nothing in processes of their own, for tests of how a job mirrors itself."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from lmk_experiments.mirror import open_store
from lmk_experiments.mirror.read import runs_of_root
from lmk_experiments.mirror.store import Store
from lmk_experiments.records import Cell, GridRecord, RowRecord, TrainingRecord, training_cell

LAST = 20
"""The last step of a cell."""
WORKER = f"""
import os, sys, time, warnings
from pathlib import Path
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell

folder, hold = Path(sys.argv[1]), int(sys.argv[2])
saved = folder / "saved"

def work(recorder):
    for step in range(int(saved.read_text()) + 1 if saved.exists() else 1, {LAST} + 1):
        recorder.metrics({{"train/loss": 1 / step}}, step)
        recorder.progress(step, {LAST})
        if step % 4 == 0:
            saved.write_text(str(step))
        if step == hold:
            warnings.simplefilter("ignore")  # of a process that forks beside threads, as one with data workers does
            if os.environ.get("FORKS") and os.fork() == 0:
                while not (folder / "go").exists():
                    time.sleep(0.1)
                os._exit(0)
            (folder / "held").touch()
            while not (folder / "go").exists():
                time.sleep(0.02)
    return {{"metrics": {{}}, "model": "model"}}

work_on(Cell(folder), work)
"""


class Job(subprocess.Popen[bytes]):
    """A job. An error in its block kills it, since it may wait there for a word that does not come any more."""

    def __exit__(
        self, exc_type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is not None:
            self.kill()
        super().__exit__(exc_type, value, traceback)


class Root:
    """A root with one grid of trainings, whose identities are numbers."""

    def __init__(self, path: Path, store: str, cells: int = 1) -> None:
        self.path, self.store = path, store
        self.ids = [f"{number:012x}" for number in range(1, cells + 1)]
        for identity in self.ids:
            training_cell(path, identity).create("training", {"optim": {"steps": LAST}, "seed": 0})
        named = [(f"row{number}", identity) for number, identity in enumerate(self.ids)]
        GridRecord(
            "live",
            "A grid",
            [TrainingRecord(identity, row, 0) for row, identity in named],
            [RowRecord(row, 0, identity, {}, False, {}) for row, identity in named],
            None,
        ).save(path)

    @cached_property
    def opened(self) -> Store:
        """The store, whose opening takes some requests of its own."""
        return open_store(self.path, self.store)

    def cell(self, number: int = 0) -> Cell:
        return training_cell(self.path, self.ids[number])

    def start(self, number: int = 0, hold: int = 0, **variables: str) -> Job:
        """Begin a cell, which waits after step ``hold`` until its folder has a file `go`.

        With ``FORKS=1`` a process that it forks there, as a loader of data forks its workers, waits for that too.
        """
        with (self.path / f"log-{number}").open("a") as log:
            return Job(
                [sys.executable, "-c", WORKER, str(self.cell(number).folder), str(hold)],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "LMK_STORE": self.store, "LMK_LIVE_SECONDS": "0.2", **variables},
            )

    def said(self, number: int = 0) -> list[str]:
        """The lines of a job's log about its mirror: the others tell of its steps."""
        lines = (self.path / f"log-{number}").read_text().splitlines()
        return [line for line in lines if not line.startswith("step ")]

    def runs(self) -> dict[str, Any]:
        """The runs of cells by id, each of them once; the grid's parent is `live`."""
        found = list(runs_of_root(self.opened, "training").values())
        named = {str(run.data.tags.get("lmk.cell") or run.data.tags["lmk.grid"]): run for run in found}
        assert len(named) == len(found), "a cell has two runs"
        return named

    def steps(self, run: Any, name: str = "train/loss") -> list[int]:
        history = self.opened.client.get_metric_history(run.info.run_id, name)
        return sorted(point.step for point in history)
