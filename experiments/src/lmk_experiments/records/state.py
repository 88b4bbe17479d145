"""The states of a cell, as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StateName = Literal["planned", "queued", "running", "preempted", "done", "failed", "stopped", "unknown"]


@dataclass(frozen=True)
class State:
    """What is known of a cell at one moment.

    Attributes:
        name: one of ``StateName``.
        reason: of a failure or a stop, one line. What a person or a signal has stopped has not failed.
        done, total, unit: how far a running cell is, for example 120 of 400 ``step``.
        seconds_left: estimated, in seconds.
        attempts: how often the cell was started.
    """

    name: StateName
    reason: str = ""
    done: int = 0
    total: int = 0
    unit: str = "step"
    seconds_left: float | None = None
    attempts: int = 0

    def __str__(self) -> str:
        if self.name == "running" and self.total:
            left = "" if self.seconds_left is None else f", {format_seconds(self.seconds_left)} left"
            said = f"; {self.reason}" if self.reason else ""
            return f"running ({self.done}/{self.total} {self.unit}s{left}{said})"
        return f"{self.name} ({self.reason})" if self.reason else self.name


def format_seconds(seconds: float) -> str:
    """A duration for people: ``42 s``, ``3 min 05 s``, ``2 h 07 min``.

    >>> format_seconds(42), format_seconds(185), format_seconds(7640)
    ('42 s', '3 min 05 s', '2 h 07 min')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
