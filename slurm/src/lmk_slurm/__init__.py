"""Jobs with dependencies over submitit: this machine today, a scheduler behind the same interface.

A job is one importable function and one string; it is done when the files it promised are there. See README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_slurm.checks import JobError
from lmk_slurm.jobs import Job, JobResult, JobState, Resources
from lmk_slurm.launcher import Launcher, Phase, Report
from lmk_slurm.run import JobsInterrupted, run_jobs

if TYPE_CHECKING:
    from lmk_slurm.local import LocalLauncher

__all__ = [
    "Job",
    "JobError",
    "JobResult",
    "JobState",
    "JobsInterrupted",
    "Launcher",
    "LocalLauncher",
    "Phase",
    "Report",
    "Resources",
    "run_jobs",
]


def __getattr__(name: str) -> object:
    if name == "LocalLauncher":  # the only name that needs submitit
        from lmk_slurm.local import LocalLauncher

        return LocalLauncher
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
