"""Where every cell of a grid stands: ``DONE.json`` first, then the controller, then the accounts, then the records."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lmk_experiments.records import Cell, GridRecord, State, evaluation_cell, pretraining_cell, training_cell
from lmk_experiments.records.cell import FAILURES, STOPPED
from lmk_experiments.records.claim import read_claim
from lmk_experiments.records.tickets import JobNote, last_job
from lmk_slurm import SchedulerError, Sighting, Ticket, look
from lmk_slurm.launcher import Phase

_ENDS = {
    "OUT_OF_MEMORY": "out of memory",
    "TIMEOUT": "its time was up",
    "DEADLINE": "its deadline passed",
    "NODE_FAIL": "its node was lost",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "pushed out by another job",
    "CANCELLED": "cancelled",
    "COMPLETED": "its job ended without finishing it",
    "GONE": "its job is gone, and the scheduler no longer says how it ended",
}
_TAIL_BYTES = 16 * 1024


@dataclass(frozen=True)
class CellState:
    """One cell of a grid, and where it stands."""

    cell: Cell
    kind: str
    row: str
    seed: int
    suite: str
    state: State
    job: JobNote | None

    @property
    def log(self) -> Path | None:
        """The file to read: of the cell's job, else of its last start on this machine."""
        if self.job is not None:
            return Path(self.job.log)
        return newest_log(self.cell.folder)

    @property
    def tokens_per_second(self) -> float | None:
        """The training's speed, as of its last word."""
        return _last_value(self.cell.folder / "metrics.jsonl", "train/tokens_per_second")


@dataclass(frozen=True)
class GridStates:
    """Every cell of a grid."""

    cells: list[CellState]
    warning: str = ""
    """Why the scheduler could not be asked."""

    @property
    def done(self) -> int:
        """How many are done."""
        return sum(one.state.name == "done" for one in self.cells)

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen by itself: all are done, or what is left was submitted and has failed."""
        names = {one.state.name for one in self.cells}
        return names == {"done"} or (
            any(one.job for one in self.cells) and not names & {"queued", "running", "preempted", "unknown"}
        )


def grid_states(record: GridRecord, root: Path) -> GridStates:
    """Look at every cell, with one call of the scheduler however many there are."""
    listed = _cells(record, root)
    jobs = {
        cell.folder: job
        for cell, *_ in listed
        if cell.state().name != "done" and (job := last_job(cell.folder)) is not None
    }
    warning = ""
    seen: Mapping[str, Sighting] = {}
    try:
        seen = look([Ticket(job.id, job.name) for job in jobs.values()])
    except SchedulerError as error:
        warning = f"the scheduler cannot be asked ({error}); what it has is not known"
    cells = []
    for cell, kind, row, seed, suite in listed:
        job = jobs.get(cell.folder)
        state = cell.state() if job is None else cell_state(cell, job, seen.get(job.id))
        cells.append(CellState(cell, kind, row, seed, suite, state, job or last_job(cell.folder)))
    return GridStates(cells, warning)


def cell_state(cell: Cell, job: JobNote, sighting: Sighting | None) -> State:
    """The state of a submitted cell, given what the scheduler says of its job (``None``: it could not be asked)."""
    known = cell.state()
    if known.name == "done":  # it may have finished since the scheduler was asked
        return known
    claim = read_claim(cell.folder / "claim.json")
    if known.name == "running" and claim is not None and claim.job is None:  # a process outside the scheduler
        return known
    mine = [event for event in cell.events() if event["event"] == "attempt" and event.get("job") == job.id]
    attempts = known.attempts
    if sighting is None:
        return State("unknown", f"submitted as {job.id}", attempts=attempts)
    match sighting.phase:
        case Phase.QUEUED:
            return State("preempted" if mine else "queued", sighting.reason, attempts=attempts)
        case Phase.RUNNING if known.name == "running":
            return known
        case Phase.RUNNING if not mine:
            return State("queued", "its job runs, and has not come to it yet", attempts=attempts)
        case Phase.RUNNING:
            return replace(known, name="running", reason="ending") if known.name in ("failed", "stopped") else known
        case Phase.ENDED if (cell.folder / "DONE.json").exists():  # and still not done: it cannot be read
            return known
        case Phase.ENDED:
            return State("failed", _why(cell, job, sighting), attempts=attempts)
    if sighting.state == "GONE":
        return State("failed", _ENDS["GONE"], attempts=attempts)
    return State("unknown", sighting.state, attempts=attempts)


def newest_log(folder: Path) -> Path | None:
    """The log of the last start of a cell on this machine."""
    logs = [path for path in (folder / "logs").glob("*_0_log.out") if path.name.split("_")[0].isdigit()]
    return max(logs, key=lambda path: int(path.name.split("_")[0]), default=None)


def _why(cell: Cell, job: JobNote, sighting: Sighting) -> str:
    if sighting.state == "CANCELLED" and sighting.reason == "DependencyNeverSatisfied":
        return "its training failed"
    own: list[str] = []
    for event in cell.events():
        if event["event"] == "attempt":
            own = [] if event.get("job") == job.id else ["another job's"]
        elif event["event"] in FAILURES and not own:
            own.append(event.get("reason", ""))
    how = _ENDS.get(sighting.state, "")
    if own and own[-1] not in ("", STOPPED, "another job's"):
        return own[-1]
    return how or f"its job ended as {sighting.state}{f' ({sighting.reason})' if sighting.reason else ''}"


def _cells(record: GridRecord, root: Path) -> list[tuple[Cell, str, str, int, str]]:
    pretrainings = [
        (pretraining_cell(root, first.id), "pretraining", first.row, first.seed, "") for first in record.pretrainings
    ]
    trainings = [
        (training_cell(root, training.id), "training", training.row, training.seed, "") for training in record.trainings
    ]
    evaluations = [
        (evaluation_cell(root, identity), "evaluation", row.row, row.seed, suite)
        for row in record.rows
        for suite, identity in row.evaluations.items()
    ]
    return [*pretrainings, *trainings, *evaluations]


def _last_value(path: Path, name: str) -> float | None:
    """The newest value of a metric; reads the end of the file only."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            values = json.loads(line)["values"]
            if name in values:
                return float(values[name])
        except (ValueError, KeyError, TypeError):
            continue
    return None
