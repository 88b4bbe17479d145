"""The seam between the loop that runs jobs and what runs a job: this machine, or a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

from lmk_slurm.jobs import Job


class Phase(StrEnum):
    """What the loop needs to know of a started job."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"
    """a word of the scheduler that means nothing to us: it is shown, and the job is left alone"""


@dataclass(frozen=True)
class Report:
    """One look at a started job."""

    phase: Phase
    words: str = ""
    """for a person; after the end a hint at what happened, never the verdict"""
    crashed: bool = False
    """whether the process ended by an error of its own, so that the last error in its log is the likely cause"""


class Handle(Protocol):
    """A started job."""

    @property
    def id(self) -> str:
        """The launcher's name for it."""
        ...

    @property
    def log(self) -> Path:
        """The file a person should read."""
        ...


H = TypeVar("H", bound=Handle)


class Launcher(Protocol[H]):
    """Starts jobs and looks after them. It never decides whether a job is done: the job's `done` paths do."""

    def check(self, job: Job) -> None:
        """Raises JobError when this launcher cannot run `job`. Called for all jobs before any starts."""
        ...

    def submit(self, job: Job) -> H:
        """Starts `job`. An OSError fails this job alone; any other exception stops the loop."""
        ...

    def poll(self, handle: H) -> Report:
        """Looks at a started job, without waiting."""
        ...

    def cancel(self, handles: Sequence[H]) -> None:
        """Stops these jobs and returns when they have ended (or, on a scheduler, when it took the order)."""
        ...
