"""Where every cell of a grid stands: ``DONE.json`` first, then the controller, then the accounts, then the records."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lmk_experiments.jobs.shares import share_failed, share_starts, shares_of, shares_said
from lmk_experiments.records import Cell, GridRecord, State, list_cells
from lmk_experiments.records.attempts import OUT_OF_MEMORY, Attempt, attempts, gpu_hours
from lmk_experiments.records.cell import FAILURES, is_stop
from lmk_experiments.records.claim import heartbeat, read_claim
from lmk_experiments.records.state import format_seconds
from lmk_experiments.records.tickets import JobNote, last_job
from lmk_experiments.submit.estimates import read_estimates
from lmk_experiments.submit.memory import ran_out
from lmk_slurm import SchedulerError, Sighting, Ticket, look
from lmk_slurm.launcher import Phase
from lmk_slurm.logs import was_killed
from lmk_slurm.scheduler import GONE

_CANCELLED = "cancelled"
_ENDS = {
    "OUT_OF_MEMORY": "out of memory",
    "TIMEOUT": "its time was up",
    "DEADLINE": "its deadline passed",
    "NODE_FAIL": "its node was lost",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "pushed out for good: submit again, and it goes on",
    "CANCELLED": _CANCELLED,
    "COMPLETED": "its job ended without finishing it",
    "GONE": "its job is gone, and the scheduler no longer says how it ended",
}
_TAIL_BYTES = 16 * 1024
_ANOTHER = "another job's"
_ACTIVE = ("queued", "running", "preempted", "unknown")
SILENT_SECONDS = 300.0
"""A running cell that gave no sign of life for this long is shown so, in seconds."""


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
    active: bool = False
    """Whether the scheduler has its job, or a process works on it."""
    estimate: float | None = None
    """Hours of one GPU, as estimated when it was submitted."""

    @cached_property
    def starts(self) -> list[Attempt]:
        """Every start of it, oldest first."""
        return attempts(self.cell.events())

    @property
    def alive(self) -> float:
        """When it was last known to work, in Unix seconds."""
        return time.time() if self.state.name == "running" else heartbeat(self.cell.folder)

    @property
    def gpu_hours(self) -> float:
        """Hours of one GPU that its starts, and those of its shares, have used so far."""
        return gpu_hours(self.starts, self.alive) + gpu_hours(self.helpers, 0.0)

    @cached_property
    def helpers(self) -> list[Attempt]:
        """Every start of the jobs that encode shares of an evaluation."""
        return share_starts(self.cell) if self.kind == "evaluation" else []

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
    def gpu_hours(self) -> float:
        """Hours of one GPU that all cells have used so far."""
        return sum(one.gpu_hours for one in self._once)

    @property
    def estimate(self) -> float | None:
        """Hours of one GPU that all cells were estimated to take; ``None`` where nothing is known of any."""
        known = [one.estimate for one in self._once if one.estimate is not None]
        return sum(known) if known else None

    @property
    def _once(self) -> list[CellState]:
        """Every cell once, however many rows read it."""
        return list({one.cell.folder: one for one in self.cells}.values())

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen by itself: all are done, or what is left was submitted and has failed."""
        if all(one.state.name == "done" for one in self.cells):
            return True
        return any(one.job for one in self.cells) and not any(one.active for one in self.cells)


def grid_states(record: GridRecord, root: Path) -> GridStates:
    """Look at every cell, with one call of the scheduler however many there are."""
    listed = list_cells(record, root)
    jobs = {
        one.cell.folder: job
        for one in listed
        if one.cell.state().name != "done" and (job := last_job(one.cell.folder)) is not None
    }
    warning = ""
    seen: Mapping[str, Sighting] = {}
    try:
        seen = look([Ticket(job.id, job.name) for job in jobs.values()])
    except SchedulerError as error:
        warning = f"the scheduler cannot be asked ({error}); what it has is not known"
    estimates = read_estimates(root, record.name)
    cells = []
    for one in listed:
        cell = one.cell
        job = jobs.get(cell.folder)
        sighting = None if job is None else seen.get(job.id)
        state = cell.state() if job is None else cell_state(cell, job, sighting)
        ended = sighting is not None and (sighting.phase is Phase.ENDED or sighting.state == GONE.state)
        active = state.name in _ACTIVE and not (ended and state.name != "running")
        job = job or last_job(cell.folder)
        cells.append(
            CellState(cell, one.kind, one.row, one.seed, one.suite, state, job, active, estimates.get(cell.id))
        )
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
    count = known.attempts
    if sighting is None:
        return State("unknown", f"submitted as {job.id}", attempts=count)
    match sighting.phase:
        case Phase.QUEUED:
            # Of a word that is about to become another (NODE_FAIL while it is queued again) only the queue is sure.
            word = sighting.reason if sighting.state == "PENDING" else sighting.state
            return State("preempted" if mine else "queued", shares_said(cell) or word, attempts=count)
        case Phase.RUNNING if known.name == "running":
            return _silent(cell, known)
        case Phase.RUNNING if not mine:
            return State("queued", "its job runs, and has not come to it yet", attempts=count)
        case Phase.RUNNING:
            if known.name not in ("failed", "stopped"):
                return known
            # Its last start has ended, and SLURM says that its job runs: it ends in a moment, or it runs once more.
            again = sighting.state == "RUNNING" and known.name == "stopped"
            said = "its job starts again" if again else "ending"
            return State("preempted" if again else "running", said, attempts=count)
        case Phase.ENDED if (cell.folder / "DONE.json").exists():  # and still not done: it cannot be read
            return known
        case Phase.ENDED:
            why = _why(cell, job, sighting)
            # What a person took back has not failed; but a cell may have failed before its job was cancelled.
            name = "preempted" if sighting.state == "PREEMPTED" else "stopped" if why == _CANCELLED else "failed"
            return State(name, why, attempts=count)
    if sighting.state == "GONE":
        return State("failed", _ENDS["GONE"], attempts=count)
    return State("unknown", sighting.state, attempts=count)


def share_jobs(cells: Sequence[CellState]) -> dict[str, str]:
    """Id to name of the jobs that encode shares of these cells' evaluations and have not ended.

    Raises:
        SchedulerError: the scheduler cannot be asked.
    """
    shares = [share for one in cells if one.state.name != "done" for share in shares_of(one.cell.folder)]
    notes = {note.id: note for one in shares if one.done() is None and (note := last_job(one.folder)) is not None}
    seen = look([Ticket(note.id, note.name) for note in notes.values()])
    return {
        id_: note.job for id_, note in notes.items() if seen[id_].phase is not Phase.ENDED and seen[id_].state != "GONE"
    }


def newest_log(folder: Path) -> Path | None:
    """The log of the last start of a cell on this machine."""
    logs = [path for path in (folder / "logs").glob("*_0_log.out") if path.name.split("_")[0].isdigit()]
    return max(logs, key=lambda path: int(path.name.split("_")[0]), default=None)


def _silent(cell: Cell, state: State) -> State:
    """``state``, with a word where a running cell has given no sign of life for long: its node may be in trouble."""
    silent = time.time() - heartbeat(cell.folder)
    if silent < SILENT_SECONDS or state.reason:
        return state
    return replace(state, reason=f"no sign of life for {format_seconds(silent)}")


def _why(cell: Cell, job: JobNote, sighting: Sighting) -> str:
    if sighting.state == "CANCELLED" and sighting.reason == "DependencyNeverSatisfied":
        return share_failed(cell) or _never(cell)
    own: list[str] = []
    for event in cell.events():
        if event["event"] == "attempt":
            own = [] if event.get("job") == job.id else [_ANOTHER]
        elif is_stop(event):
            own.append("")
        elif event["event"] in FAILURES and not own:
            own.append(event.get("reason", ""))
    how = _ENDS.get(sighting.state, "")
    if own and own[-1] not in ("", _ANOTHER):
        return own[-1] + (
            _more_memory(job) if [one.end for one in attempts(cell.events())[-1:]] == [OUT_OF_MEMORY] else ""
        )
    if ran_out(cell, job, sighting):
        return f"out of memory{_more_memory(job)}"
    if not how and was_killed(Path(job.log)):
        return "its process was killed"
    return how or f"its job ended as {sighting.state}{f' ({sighting.reason})' if sighting.reason else ''}"


def _never(cell: Cell) -> str:
    """What the cell waited for in vain."""
    before = cell.waits_for()
    if before is None:
        return "what it waits for did not finish"
    if before.done() is not None:
        return (
            "its shares did not finish"
            if shares_of(cell.folder)
            else "what it waited for had ended without finishing; submit again"
        )
    return f"its {'pre-training' if before.folder.parent.name == 'pretrainings' else 'training'} did not finish"


def _more_memory(job: JobNote) -> str:
    if job.memory_gb is None:
        return ""
    if job.raised:
        return f": {job.memory_gb:g} GB, raised once already; give it more (memory_gb)"
    return f": {job.memory_gb:g} GB; submit again, and it asks for more"


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
