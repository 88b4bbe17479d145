"""What a job is, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one job asks a scheduler for. `None` leaves the choice to the launcher.

    The local launcher has one node, hides the GPUs from a job with `gpus=0` and enforces nothing else.
    """

    nodes: int = 1
    tasks: int = 1
    """processes a node; each of them calls the job's function"""
    gpus: int | None = None
    """GPUs a node"""
    cpus: int | None = None
    """CPUs a task"""
    memory_gb: float | None = None
    """host memory a node, in GB"""
    hours: float | None = None
    """wall time"""


@dataclass(frozen=True)
class Job:
    """One call of one function with one string, in a process of its own.

    The function runs as `function(argument)`; what it returns is ignored. It must write the paths in `done` itself,
    the last of them last: they alone say that the job is done.
    """

    name: str
    """unique among the jobs that run together"""
    function: str
    """`package.module:attribute`, importable by a fresh Python process"""
    argument: str
    logs: Path
    """folder of the logs: `1_0_log.out` for the first start, `2_0_log.out` for the second, ..."""
    after: tuple[str, ...] = ()
    """names of the jobs that must be done before this one starts"""
    done: tuple[Path, ...] = ()
    """files or folders that exist when, and only when, the job has done its work; at least one"""
    resources: Resources = field(default_factory=Resources)
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """variables set for this job's process only, on top of those of the process that starts it"""

    def missing(self) -> list[Path]:
        """The paths of `done` that do not exist now."""
        return [path for path in self.done if not path.exists()]


class JobState(StrEnum):
    """Where a job stands. A scheduler's own words never become a state: they are shown in `JobResult.reason`."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to a job in this state."""
        return self not in (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True)
class JobResult:
    """Where a job stands and why."""

    state: JobState
    reason: str = ""
    """one line: why it failed, was skipped or cancelled, or what the scheduler says while it waits or runs"""
    log: Path | None = None
    """the file to read (output and errors in order); None for a job that was never started here"""
    tail: str = ""
    """the last lines of that file, for a job that failed"""
