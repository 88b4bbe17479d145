"""How many cells this machine runs at a time, and the threads that each of them computes with."""

from __future__ import annotations

import os
from collections.abc import Iterable

from lmk_slurm import Job, Resources

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def cores_here() -> int:
    """Cores that this process may use: those of its affinity where the system has one, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cells_at_once(jobs: Iterable[Job], cores: int) -> int:
    """How many of these jobs fit on ``cores`` cores, whichever they are.

    1 where one of them asks for GPUs, or doesn't say how many cores it wants: then it may use all.

    Two cells of one thread each are about twice as fast as one after another with two threads: models as small as
    those of a laptop's grid have nothing to share out among threads.
    """
    asked = [job.resources for job in jobs]
    if any(resources.gpus or not resources.cpus for resources in asked):
        return 1
    return max(1, cores // max((resources.cpus or 1 for resources in asked), default=1))


def threads(resources: Resources) -> dict[str, str]:
    """The variables that give a process the threads it asks for.

    As many as the grid says, whatever the machine has: sums of another number of threads round differently, and a table
    would depend on where it was made. One that doesn't ask uses as many as torch likes.
    """
    return dict.fromkeys(_THREADS, str(resources.cpus)) if resources.cpus and not resources.gpus else {}
