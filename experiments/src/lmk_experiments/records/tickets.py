"""Which jobs of a scheduler a cell was handed to: one line each in the cell's ``jobs.jsonl``, newest last."""

from __future__ import annotations

import getpass
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lmk_experiments.records.atomic import append_line, read_lines
from lmk_experiments.records.shapes import NUMBER, TEXT, Shape

FILE = "jobs.jsonl"
_SHAPE: Shape = {
    "id": TEXT, "name": TEXT, "job": TEXT, "log": TEXT, "time": NUMBER, "profile": TEXT, "user": TEXT, "host": TEXT,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JobNote:
    """One job that a cell was handed to."""

    id: str
    """The scheduler's number, such as ``17_3``."""
    name: str
    """Its name in the queue. Numbers start anew on another cluster; the name never comes twice."""
    job: str
    """For people: ``train cls``."""
    log: str
    time: float
    """When it was submitted, in Unix seconds."""
    profile: str
    user: str
    host: str
    commit: str | None = None
    code: str | None = None
    """The copy of the code that it runs with."""
    memory_gb: float | None = None
    """Host memory a node that it asked for."""
    raised: bool = False
    """Whether that is more than the grid and the profile say, because a job before ran out of it."""


def note_job(folder: Path, note: JobNote) -> None:
    """Append a job to the cell in ``folder``."""
    append_line(folder / FILE, asdict(note))


def last_job(folder: Path) -> JobNote | None:
    """The job that the cell in ``folder`` was last handed to, or ``None``; a line of another shape names none."""
    known = {field.name for field in fields(JobNote)}
    lines = read_lines(folder / FILE, _SHAPE)
    return JobNote(**{key: value for key, value in lines[-1].items() if key in known}) if lines else None


def user_name() -> str:
    """Who this process belongs to; the user's number where the machine knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
