"""What ran where, how often, and for how many hours: from the events of cells."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lmk_experiments.records import Cell


@dataclass(frozen=True)
class Attempt:
    """One start of a cell.

    Attributes:
        start, end: Unix seconds; of an attempt that ended without a word, ``end`` is the last that was heard of it.
        outcome: ``done``, ``running``, ``preempted``, ``stopped``, ``failed: why`` or ``ended without a word``.
        host, pid, job, user: where it ran, as far as it is recorded.
        code: the commit, or the folder of code that is no copy of one.
        device, processes, torch: of a training, once it has started.
    """

    start: float
    end: float
    outcome: str
    host: str = ""
    pid: int = 0
    job: str = ""
    user: str = ""
    code: str = ""
    device: str = ""
    processes: int = 1
    torch: str = ""

    @property
    def hours(self) -> float:
        """Wall-clock hours."""
        return max(0.0, self.end - self.start) / 3600

    @property
    def gpus(self) -> int | None:
        """GPUs it had: one a process. ``None`` where it is not recorded."""
        if not self.device:
            return None
        return 0 if self.device == "cpu" else self.processes


def attempts(cell: Cell) -> list[Attempt]:
    """Every start of a cell, oldest first."""
    groups: list[list[dict[str, Any]]] = []
    for event in cell.events():
        if event["event"] == "attempt":
            groups.append([])
        if groups:
            groups[-1].append(event)
    running = cell.state().name == "running"
    metrics = [line["time"] for line in cell.metrics()] if groups else []
    found = []
    for index, group in enumerate(groups):
        last = index == len(groups) - 1
        until = time.time() if last else groups[index + 1][0]["time"]
        heard = [moment for moment in metrics if group[0]["time"] <= moment <= until]
        end = until if last and running else max([group[-1]["time"], *heard])
        found.append(_attempt(group, end, "running" if last and running else ""))
    return found


def _attempt(group: Sequence[dict[str, Any]], end: float, outcome: str) -> Attempt:
    first = group[0]
    started = next((event for event in group if event["event"] == "start"), {})
    commit = str(first.get("commit") or "")
    changed = " with changes" if first.get("dirty") else ""
    processes = started.get("processes", 1)
    return Attempt(
        start=first["time"],
        end=end,
        outcome=outcome or _outcome(group),
        host=str(first.get("nodes") or first.get("host") or ""),
        pid=first["pid"] if isinstance(first.get("pid"), int) else 0,
        job=str(first.get("job") or ""),
        user=str(first.get("user") or ""),
        code=f"commit {commit[:12]}{changed}" if commit else str(first.get("code") or ""),
        device=str(started.get("device") or ""),
        processes=processes if isinstance(processes, int) else 1,
        torch=str(started.get("torch") or ""),
    )


def _outcome(group: Sequence[dict[str, Any]]) -> str:
    for event in reversed(group):
        match event["event"]:
            case "done":
                return "done"
            case "preempted":
                return "preempted"
            case "failed" | "rank_failed":
                reason = str(event.get("reason", "error"))
                return reason if reason == "stopped" else f"failed: {reason}"
    return "ended without a word"


def gpu_hours(listed: Iterable[tuple[Attempt, int]]) -> float:
    """GPU hours of attempts with the GPUs that each had; what one process did for several cells at once counts once."""
    by_process: dict[tuple[str, int, str], list[tuple[float, float, int]]] = {}
    for attempt, gpus in listed:
        key = (attempt.host, attempt.pid, attempt.job)
        by_process.setdefault(key, []).append((attempt.start, attempt.end, gpus))
    return sum(map(_union, by_process.values())) / 3600


def _union(spans: list[tuple[float, float, int]]) -> float:
    total, reached = 0.0, 0.0
    for start, end, gpus in sorted(spans):
        total += max(0.0, end - max(start, reached)) * gpus
        reached = max(reached, end)
    return total
