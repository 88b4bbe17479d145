"""Cells that seem to run on another machine although the scheduler knows better."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

from lmk_experiments.records import Cell
from lmk_experiments.records.claim import heartbeat, read_claim
from lmk_experiments.records.tickets import last_job
from lmk_slurm import SchedulerError, Ticket, look
from lmk_slurm.launcher import Phase


def ended(cells: Iterable[Cell]) -> set[Path]:
    """The folders of cells whose claim is a job's that neither runs nor is unknown to the scheduler.

    A process that was killed at once on another machine leaves its claim, which counts as alive for minutes. The
    scheduler is asked once for all of them, and only where there are such claims; where it cannot be, nobody is.
    """
    jobs: dict[Path, Ticket] = {}
    for cell in cells:
        claim = read_claim(cell.folder / "claim.json")
        if claim is None or claim.job is None or claim.host == socket.gethostname():
            continue
        note = last_job(cell.folder)
        if note is not None and note.id == claim.job and claim.alive(heartbeat(cell.folder)):
            jobs[cell.folder] = Ticket(note.id, note.name)
    try:
        seen = look(jobs.values())
    except SchedulerError:
        return set()
    return {
        folder
        for folder, job in jobs.items()
        if seen[job.id].phase in (Phase.QUEUED, Phase.ENDED) or seen[job.id].state == "GONE"
    }
