"""``lmk submit``: hand to the scheduler what a grid lacks, and return."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lmk_experiments.grids import Plan
from lmk_experiments.jobs.fan import make_jobs
from lmk_experiments.jobs.shares import make_shares
from lmk_experiments.jobs.sync import MARK
from lmk_experiments.profiles import Profile
from lmk_experiments.records import Cell, GridRecord
from lmk_experiments.records.claim import heartbeat, read_claim
from lmk_experiments.records.tickets import JobNote, last_job, note_job, user_name
from lmk_experiments.submit.snapshot import Snapshot
from lmk_slurm import Job, Resources, Sent, Sighting, Ticket, look, submit_jobs
from lmk_slurm.launcher import Phase


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

    Raises:
        JobError, SchedulerError: as ``submit_grid``.
    """
    seen = _sightings(jobs)
    missing: list[Job] = []
    active: dict[str, str] = {}
    left_out: set[str] = set()
    for job in jobs:
        todo, running = _split(job, seen)
        _free(todo, seen)
        held = [cell for cell in todo if _held_outside(cell)]
        if held or left_out.intersection(job.after):
            left_out.add(job.name)
        elif todo:
            active |= {f"{job.name}, cell {id_}": id_ for id_ in running}
            missing.append(_of(job, todo))
        else:
            if running:
                active[job.name] = running[0]
            missing.append(job)  # is submitted no more, and known by its name to those that wait for it
    sent = submit_jobs(
        missing,
        replace(profile.site(), setup_last=code.setup_lines()),
        grid_folder(record, root) / "submissions" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f"),
        label=record.name,
        active=active,
        last=sync_job(record, root) if profile.sync.enabled else None,
        last_site=replace(profile.sync_site(), setup_last=code.setup_lines()),
        on_sent=lambda job, one: _note(job, one, profile, code),
    )
    done = sum(not job.missing() for job in jobs)
    return Submission(sent, active, sorted(left_out), done)


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
    """Remove the claims that ended jobs have left, so that the next job need not wait until they are stale."""
    for cell in cells:
        claim = read_claim(cell.folder / "claim.json")
        if claim is not None and claim.job is not None and cell.folder in seen and claim.job == seen[cell.folder][0].id:
            (cell.folder / "claim.json").unlink(missing_ok=True)


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


def _note(job: Job, one: Sent, profile: Profile, code: Snapshot) -> None:
    note = JobNote(
        id=one.ticket.id,
        name=one.ticket.name,
        job=job.name,
        log=str(one.log),
        time=time.time(),
        profile=profile.profile,
        user=user_name(),
        host=socket.gethostname(),
        commit=code.commit,
        code=None if code.folder is None else str(code.folder),
    )
    for cell in cells_of(job):
        note_job(cell.folder, note)
