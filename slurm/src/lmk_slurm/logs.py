"""Reads the end of a log to say in one line what went wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

_READ_BYTES = 64 * 1024
_TAIL_LINES = 20
_LINE_CHARACTERS = 300
_DAEMONS = re.compile(r"(slurmstepd|srun|slurmd|slurmctld)\S*: ")
_MEMORY = re.compile(r"oom.?kill|out of memory|exceeded (job |step )?memory limit|memory limit exceeded", re.IGNORECASE)
_KILLED = re.compile(r"srun: error: .*tasks? .*: Killed")
_OWN_LINE = re.compile(r"submitit (DEBUG|INFO|WARNING|ERROR) \(")


def tail(log: Path | None, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log that are not blank; empty when there is none. Reads 64 KB at most."""
    return "\n".join(_last_lines(log)[-lines:])


def last_error(log: Path | None) -> str:
    """The error a crashed job ended with: the last traceback's exception, else the last line; empty without a log."""
    lines = _last_lines(log)
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last):")]
    if starts:
        for line in lines[starts[-1] + 1 :]:
            if not line[0].isspace():
                return line[:_LINE_CHARACTERS]
    own = [line for line in lines if not _OWN_LINE.match(line)]
    return own[-1][:_LINE_CHARACTERS] if own else ""


def _last_lines(log: Path | None) -> list[str]:
    if log is None:
        return []
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _READ_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def out_of_memory(log: Path | None) -> bool:
    """Whether SLURM's own daemons say at the end of a log that they killed the job for its memory."""
    return any(_MEMORY.search(line) for line in _last_lines(log) if _DAEMONS.match(line))


def was_killed(log: Path | None) -> bool:
    """Whether srun says at the end of a log that a process of the job was killed."""
    return any(_KILLED.match(line) for line in _last_lines(log))
