"""More host memory for a job whose last start ran out of it: once, within the profile's limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lmk_experiments.records import Cell
from lmk_experiments.records.attempts import OUT_OF_MEMORY, attempts
from lmk_experiments.records.tickets import JobNote
from lmk_slurm import Job, Sighting
from lmk_slurm.logs import out_of_memory

if TYPE_CHECKING:
    from lmk_experiments.profiles import Profile

FACTOR = 2.0


def with_memory(
    job: Job, cells: Sequence[Cell], seen: Mapping[Path, tuple[JobNote, Sighting]], profile: Profile
) -> tuple[Job, bool]:
    """The job as it is to be submitted, and whether it asks for more memory than grid and profile say."""
    asked = job.resources.memory_gb if job.resources.memory_gb is not None else profile.memory_gb
    wanted = asked
    for cell in cells:
        note, sighting = seen.get(cell.folder, (None, None))
        if asked is None or note is None or note.memory_gb is None:
            continue
        before = note.memory_gb
        if not note.raised and sighting is not None and ran_out(cell, note, sighting):
            before = min(before * FACTOR, profile.max_memory_gb or before * FACTOR)
        elif not note.raised:
            continue
        wanted = max(wanted or 0.0, before)
    if asked is None or wanted is None or wanted <= asked:
        return job, False
    return replace(job, resources=replace(job.resources, memory_gb=wanted)), True


def ran_out(cell: Cell, note: JobNote, sighting: Sighting) -> bool:
    """Whether the cell's last start ended because the host's memory ran out.

    An error says so itself. A kill says nothing: then the scheduler's word counts, which often is only that the job
    failed, and what its own daemons have written at the end of the log.
    """
    own = [one for one in attempts(cell.events()) if one.job == note.id]
    if own and own[-1].end != "open":
        return own[-1].end == OUT_OF_MEMORY
    if sighting.state == "OUT_OF_MEMORY":
        return True
    return bool(own) and sighting.state in ("FAILED", "CANCELLED") and out_of_memory(Path(note.log))
