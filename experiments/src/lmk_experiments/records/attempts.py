"""The starts of a cell as its events tell them: when each began, how it ended, and what it used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from time import time as now
from typing import Any, Literal

from lmk_experiments.records.cell import Cell
from lmk_experiments.records.claim import heartbeat

End = Literal["open", "done", "preempted", "time", "stopped", "lost", "out_of_gpu_memory", "out_of_memory", "error"]
"""How a start ended. ``open``: nothing says so yet. ``lost``: without a word, and a later start followed. ``time``: its
allocation was over. ``stopped``: by a person. The last three are the kinds of a failure."""

OUT_OF_GPU_MEMORY, OUT_OF_MEMORY, ERROR = "out_of_gpu_memory", "out_of_memory", "error"
SAID = {
    "preempted": "pushed out",
    "time": "its time was up",
    "stopped": "stopped",
    "lost": "ended without a word",
    OUT_OF_GPU_MEMORY: "GPU memory ran out",
    OUT_OF_MEMORY: "memory ran out",
    ERROR: "an error",
}
"""For people."""
GPUS_VARIABLES = ("SLURM_GPUS_ON_NODE", "SLURM_JOB_NUM_NODES")


@dataclass(frozen=True)
class Attempt:
    """One start of a cell.

    Attributes:
        started, ended: in Unix seconds; ``ended`` of an open one is ``None``.
        job: the scheduler's job, such as ``17_3``; ``None`` outside one.
        host: the nodes of its job, else the machine.
        gpus: how many GPUs it held: those of its job, or as many as it had processes on GPUs.
        step: the last step that it told of; ``None`` where it told of none.
        code: the commit, or the folder of code that is no copy of one.
        device, torch: what it ran on and with, as far as it has told.
    """

    started: float
    ended: float | None = None
    end: End = "open"
    job: str | None = None
    host: str = ""
    gpus: int = 0
    step: int | None = None
    unit: str = "step"
    reason: str = ""
    user: str = ""
    code: str = ""
    device: str = ""
    torch: str = ""

    def seconds(self, alive: float) -> float:
        """How long it held its place; ``alive`` is the newest sign of life, for an open one."""
        return max(0.0, (alive if self.ended is None else self.ended) - self.started)

    @property
    def said(self) -> str:
        """How it ended, for people."""
        if self.end in (OUT_OF_GPU_MEMORY, OUT_OF_MEMORY, ERROR):
            return f"failed: {self.reason or SAID[self.end]}"
        return "done" if self.end == "done" else SAID[self.end if self.end in SAID else "lost"]


def attempts(events: Iterable[Mapping[str, Any]]) -> list[Attempt]:
    """The starts that a cell's events tell of, oldest first. Only the last can be open."""
    found: list[Attempt] = []
    heard, pushed = 0.0, False
    for event in events:
        kind, time = event["event"], float(event["time"])
        if kind == "attempt":
            if found and found[-1].ended is None:  # in records of before nothing said how it ended
                found[-1] = replace(found[-1], ended=heard, end="preempted" if pushed else "lost")
            found.append(_begun(event, time))
            pushed = False
        elif kind == "start" and found:
            found[-1] = _told(found[-1], event)
        elif found and kind in _ENDS and found[-1].ended is None:
            at, step = event.get("at", time), event.get("step")
            last = replace(found[-1], ended=float(at), end=_ENDS[kind](event), reason=str(event.get("reason", "")))
            found[-1] = replace(last, step=step if isinstance(step, int) else None, unit=str(event.get("unit", "step")))
        heard, pushed = time, pushed or kind == "preempted"
    return found


def starts_of(cell: Cell) -> list[Attempt]:
    """Every start of a cell, oldest first; one that is open lasts until its newest sign of life, or until now."""
    found = attempts(cell.events())
    if found and found[-1].ended is None:
        alive = now() if cell.state().name == "running" else heartbeat(cell.folder)
        found[-1] = replace(found[-1], ended=max(alive, found[-1].started))
    return found


def gpu_hours(starts: Iterable[Attempt], alive: float) -> float:
    """What these starts have used, in hours of one GPU. ``alive`` is the newest sign of life of an open one."""
    return sum(one.gpus * one.seconds(alive) for one in starts) / 3600


def gpus_here() -> int:
    """The GPUs of all nodes of the scheduler's job that this process belongs to; 0 outside one."""
    try:
        on_node, nodes = (int(os.environ.get(name, "")) for name in GPUS_VARIABLES)
    except ValueError:
        return 0
    return on_node * nodes


def failure_kind(error: BaseException) -> str:
    """Whether ``error`` says that memory ran out, of the GPU or of the host; else ``error``.

    Named and not imported: what raises it may be a library that this process has not loaded, or another process.
    """
    told: BaseException | None = error
    while told is not None:
        names = {kind.__name__ for kind in type(told).__mro__}
        text = str(told)
        if names & {"OutOfMemoryError", "OutOfMemoryTogether"} or "OutOfMemoryError" in text:
            return OUT_OF_GPU_MEMORY
        if "CUDA out of memory" in text or "CUDA error: out of memory" in text:
            return OUT_OF_GPU_MEMORY
        if isinstance(told, MemoryError) or "MemoryError" in text or "t allocate memory" in text:
            return OUT_OF_MEMORY
        if isinstance(told, OSError) and told.errno == 12:  # ENOMEM
            return OUT_OF_MEMORY
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return ERROR


def _begun(event: Mapping[str, Any], time: float) -> Attempt:
    gpus, commit = event.get("gpus"), str(event.get("commit") or "")
    changed = " with changes" if event.get("dirty") else ""
    return Attempt(
        time,
        job=event.get("job"),
        host=str(event.get("nodes") or event.get("host") or ""),
        gpus=gpus if isinstance(gpus, int) else 0,
        user=str(event.get("user") or ""),
        code=f"commit {commit[:12]}{changed}" if commit else str(event.get("code") or ""),
    )


def _told(start: Attempt, event: Mapping[str, Any]) -> Attempt:
    """``start`` with what the work says of its place once it has begun."""
    device, processes = str(event.get("device") or ""), event.get("processes", 1)
    used = processes if device not in ("", "cpu") and isinstance(processes, int) else 0
    return replace(start, device=device, torch=str(event.get("torch") or ""), gpus=max(start.gpus, used))


def _failed(event: Mapping[str, Any]) -> End:
    if event.get("reason") == "stopped":  # of a version that had no event of its own for it
        return "stopped"
    kind = event.get("failure")
    return kind if kind in (OUT_OF_GPU_MEMORY, OUT_OF_MEMORY) else "error"


def _stopped(event: Mapping[str, Any]) -> End:
    cause = event.get("cause")
    return cause if cause in ("preempted", "time") else "stopped"


_ENDS = {
    "done": lambda _: "done",
    "failed": _failed,
    "stopped": _stopped,
    "lost": lambda _: "lost",
}
