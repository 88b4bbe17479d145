"""Jobs with dependencies over submitit: on this machine (``run_jobs``), or handed to SLURM (``submit_jobs``).

A job is one importable function and one string; it is done when the files it promised are there. See README.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lmk_slurm.checks import JobError
from lmk_slurm.jobs import Job, JobResult, JobState, Resources
from lmk_slurm.launcher import Launcher, Phase, Report
from lmk_slurm.run import JobsInterrupted, run_jobs
from lmk_slurm.scheduler import SchedulerError, Sighting, Ticket, look
from lmk_slurm.site import Site

if TYPE_CHECKING:
    from lmk_slurm.local import LocalLauncher
    from lmk_slurm.parcel import Orphan, Sent, orphans
    from lmk_slurm.submit import scripts, submit_jobs

_NEED_SUBMITIT = {
    "LocalLauncher": "local",
    "Orphan": "parcel",
    "Sent": "parcel",
    "orphans": "parcel",
    "scripts": "submit",
    "submit_jobs": "submit",
}

__all__ = [
    "Job",
    "JobError",
    "JobResult",
    "JobState",
    "JobsInterrupted",
    "Launcher",
    "LocalLauncher",
    "Orphan",
    "Phase",
    "Report",
    "Resources",
    "SchedulerError",
    "Sent",
    "Sighting",
    "Site",
    "Ticket",
    "look",
    "orphans",
    "run_jobs",
    "scripts",
    "submit_jobs",
]


def __getattr__(name: str) -> object:
    if name in _NEED_SUBMITIT:
        return getattr(importlib.import_module(f"lmk_slurm.{_NEED_SUBMITIT[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
