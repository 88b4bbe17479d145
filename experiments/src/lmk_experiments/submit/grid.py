"""``lmk submit``: hand to the scheduler what a grid lacks, and return."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lmk_experiments.grids import Plan
from lmk_experiments.jobs.fan import make_jobs
from lmk_experiments.jobs.shares import make_shares
from lmk_experiments.jobs.sync import MARK
from lmk_experiments.mirror.lock import locked
from lmk_experiments.profiles import Profile
from lmk_experiments.records import Cell, GridRecord, read_json, write_json
from lmk_experiments.records.claim import heartbeat, read_claim, revoke
from lmk_experiments.records.tickets import JobNote, last_job, note_job, user_name
from lmk_experiments.submit.memory import with_memory
from lmk_experiments.submit.snapshot import Snapshot
from lmk_slurm import Job, Resources, Sent, Sighting, Ticket, look, orphans, submit_jobs
from lmk_slurm.launcher import Phase

WHO = "submission.json"
LOCK_SECONDS = 120.0
"""How long a submit waits for another one under the same root, in seconds."""


@dataclass(frozen=True)
class Submission:
    """What one ``lmk submit`` did."""

    sent: dict[str, Sent]
    """The jobs that the scheduler has taken now."""
    active: dict[str, str]
    """Jobs that it had already, with their ids."""
    elsewhere: list[str]
    """Jobs that were left out, because a process outside the scheduler works on their cells."""
    done: int
    """Jobs whose work is done."""
    raised: dict[str, float] = field(default_factory=dict)
    """Jobs that ask for more memory than grid and profile say, since one before ran out of it; in GB a node."""
    adopted: list[str] = field(default_factory=list)
    """Arrays that a submit that was cut off had handed over, and that are noted now."""


def submit_grid(record: GridRecord, root: Path, plan: Plan, profile: Profile, code: Snapshot) -> Submission:
    """Submit the jobs of a recorded grid that are neither done nor with the scheduler.

    Raises:
        JobError: a job asks for more than the profile gives; nothing was submitted.
        SchedulerError: SLURM refused or did not answer; what was submitted before is in the cells' records.
    """
    jobs = make_jobs(record, root, plan, profile)
    make_shares(jobs)
    return submit_cells(jobs, record, root, profile, code)


def submit_cells(jobs: Sequence[Job], record: GridRecord, root: Path, profile: Profile, code: Snapshot) -> Submission:
    """Submit those of ``jobs`` (each names its cells' folders in its argument) that are missing.

    One submit at a time under one root, whatever the grid: two at once would each find the same jobs missing.

    Raises:
        JobError, SchedulerError: as ``submit_grid``.
        LockedError: another submit under this root takes very long.
    """
    with locked(root / "submit.lock", wait_seconds=LOCK_SECONDS):
        return _submit(jobs, record, root, profile, code)


def _submit(jobs: Sequence[Job], record: GridRecord, root: Path, profile: Profile, code: Snapshot) -> Submission:
    adopted = adopt(root)
    seen = _sightings(jobs)
    missing: list[Job] = []
    active: dict[str, str] = {}
    left_out: set[str] = set()
    raised: dict[str, float] = {}
    for job in jobs:
        todo, running = _split(job, seen)
        _free(todo, seen)
        held = [cell for cell in todo if _held_outside(cell)]
        if held or left_out.intersection(job.after):
            left_out.add(job.name)
        elif todo:
            active |= {f"{job.name}, cell {id_}": id_ for id_ in running}
            one, more = with_memory(_of(job, todo), todo, seen, profile)
            if more and one.resources.memory_gb is not None:
                raised[job.name] = one.resources.memory_gb
            missing.append(one)
        else:
            if running:
                active[job.name] = running[0]
            missing.append(job)  # is submitted no more, and known by its name to those that wait for it
    folder = grid_folder(record, root) / "submissions" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    who = _Who.now(profile, code)
    write_json(folder / WHO, vars(who))
    sent = submit_jobs(
        missing,
        replace(profile.site(), setup_last=code.setup_lines()),
        folder,
        label=record.name,
        active=active,
        last=sync_job(record, root) if profile.sync.enabled else None,
        last_site=replace(profile.sync_site(), setup_last=code.setup_lines()),
        on_sent=lambda job, one: _note(job, one, who, profile, job.name in raised),
    )
    done = sum(not job.missing() for job in jobs)
    return Submission(sent, active, sorted(left_out), done, raised, adopted)


def adopt(root: Path) -> list[str]:
    """Take over what submitters that were killed on the way have left with the scheduler, whatever the grid.

    Only one process at a time may submit or adopt under one root.

    Returns:
        The ids of the arrays.
    """
    taken = []
    for orphan in orphans(sorted((root / "grids").glob("*/submissions/*/"))):
        who = _Who.of(orphan.note.parent)
        for argument, one in orphan.jobs.items():
            for folder in map(Path, argument.split(os.pathsep)):
                if (folder / "cell.json").exists():  # the job at the end has none
                    note_job(folder, who.note(orphan.names[argument], one))
        orphan.close()
        taken += sorted({one.ticket.id.partition("_")[0] for one in orphan.jobs.values()})
    return taken


def grid_folder(record: GridRecord, root: Path) -> Path:
    """Where a grid's own files are: its plan, its submissions, the code they run with."""
    return root / "grids" / record.name


def submissions(record: GridRecord, root: Path) -> list[Path]:
    """The folders of all submissions of a grid, oldest first."""
    return sorted((grid_folder(record, root) / "submissions").glob("*/"))


def sync_job(record: GridRecord, root: Path) -> Job:
    """The small job at the end that mirrors the records to MLflow."""
    folder = grid_folder(record, root)
    return Job(
        name=f"sync {record.name}",
        function="lmk_experiments.jobs.sync:run_sync",
        argument=str(folder),
        logs=folder / "logs",
        done=(folder / MARK,),
        resources=Resources(cpus=1, memory_gb=4, hours=1),
    )


def cells_of(job: Job) -> list[Cell]:
    """The cells that a job works on."""
    return [Cell(Path(folder)) for folder in job.argument.split(os.pathsep)]


def _sightings(jobs: Sequence[Job]) -> dict[Path, tuple[JobNote, Sighting]]:
    """For each unfinished cell that was submitted before: its job, and what the scheduler says of it now."""
    cells = [cell for job in jobs for cell in cells_of(job) if cell.done() is None]
    notes = {cell.folder: note for cell in cells if (note := last_job(cell.folder)) is not None}
    seen = look([Ticket(note.id, note.name) for note in notes.values()])
    return {folder: (note, seen[note.id]) for folder, note in notes.items()}


def _split(job: Job, seen: dict[Path, tuple[JobNote, Sighting]]) -> tuple[list[Cell], list[str]]:
    """The cells of a job that nobody works on, and the ids of the jobs that have the others."""
    todo: list[Cell] = []
    running: dict[str, None] = {}
    for cell in cells_of(job):
        if cell.done() is not None:
            continue
        note, sighting = seen.get(cell.folder, (None, None))
        if note is None or sighting is None or sighting.phase is Phase.ENDED or sighting.state == "GONE":
            todo.append(cell)
        else:  # also where the scheduler's word means nothing to us: better late than twice
            running[note.id] = None
    return todo, list(running)


def _free(cells: Sequence[Cell], seen: dict[Path, tuple[JobNote, Sighting]]) -> None:
    """Take the claims that ended jobs have left away, so that the next job need not wait until they are stale."""
    for cell in cells:
        if cell.folder in seen:
            revoke(cell.folder, seen[cell.folder][0].id)


def _held_outside(cell: Cell) -> bool:
    claim = read_claim(cell.folder / "claim.json")
    return claim is not None and claim.job is None and claim.alive(heartbeat(cell.folder))


def _of(job: Job, cells: Sequence[Cell]) -> Job:
    """The job for these cells alone."""
    return replace(
        job,
        argument=os.pathsep.join(str(cell.folder) for cell in cells),
        done=tuple(cell.folder / "DONE.json" for cell in cells),
    )


@dataclass(frozen=True)
class _Who:
    """Who submits, with which code: in the submission's folder before anything is sent, and in every job's note."""

    profile: str
    user: str
    host: str
    commit: str | None = None
    code: str | None = None

    @classmethod
    def now(cls, profile: Profile, code: Snapshot) -> _Who:
        folder = None if code.folder is None else str(code.folder)
        return cls(profile.profile, user_name(), socket.gethostname(), code.commit, folder)

    @classmethod
    def of(cls, folder: Path) -> _Who:
        """That of an earlier submission."""
        try:
            return cls(**(read_json(folder / WHO) or {}))
        except (ValueError, TypeError):
            return cls("?", "?", "?")

    def note(self, job: str, one: Sent, **more: Any) -> JobNote:
        ticket = one.ticket
        return JobNote(
            id=ticket.id, name=ticket.name, job=job, log=str(one.log), time=time.time(), **vars(self), **more
        )


def _note(job: Job, one: Sent, who: _Who, profile: Profile, raised: bool) -> None:
    needs = job.resources.memory_gb
    memory = profile.memory_gb if needs is None else needs
    for cell in cells_of(job):
        note_job(cell.folder, who.note(job.name, one, memory_gb=memory, raised=raised))
