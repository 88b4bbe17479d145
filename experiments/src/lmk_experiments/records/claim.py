"""One writer a cell: an advisory claim that names who is at work.

A claim keeps two people (or a restarted ``lmk run`` and the job it left behind) from training the same cell at once.
It is advisory: ``DONE.json`` alone says that a cell is finished. On one host a claim of a process that is gone is taken
over at once; a claim of another host is respected while its heartbeat is younger than ``STALE_SECONDS``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lmk_experiments.records.atomic import read_json, write_json

STALE_SECONDS = 600.0
"""A claim of another host without a sign of life for this long (seconds) is taken over."""


class ClaimedElsewhere(RuntimeError):
    """Somebody else is at work on this cell."""


@dataclass(frozen=True)
class Claim:
    """Who is at work on a cell."""

    host: str
    pid: int
    started: float
    """When the process started (Unix seconds), so that a re-used process id is not taken for it."""
    token: str

    def alive(self, heartbeat: float) -> bool:
        """Whether the claimant still works; ``heartbeat`` is the cell's newest sign of life in Unix seconds."""
        if self.host != socket.gethostname():
            return time.time() - heartbeat < STALE_SECONDS
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < 2.0
        except psutil.NoSuchProcess:
            return False


def read_claim(path: Path) -> Claim | None:
    """The claim in ``path``, or ``None`` where there is none that can be read."""
    try:
        value: dict[str, Any] | None = read_json(path)
    except ValueError:
        return None
    if value is None:
        return None
    return Claim(host=str(value["host"]), pid=int(value["pid"]), started=float(value["started"]), token=value["token"])


@contextlib.contextmanager
def claimed(folder: Path) -> Generator[Claim]:
    """Hold the claim of the cell in ``folder``.

    Raises:
        ClaimedElsewhere: a living process holds it; the message names host and process.
    """
    path = folder / "claim.json"
    mine = Claim(socket.gethostname(), os.getpid(), psutil.Process().create_time(), uuid.uuid4().hex)
    if not _create(path, mine):
        other = read_claim(path)
        if other is not None and other.alive(heartbeat(folder)):
            raise ClaimedElsewhere(f"{folder.name} is being worked on by process {other.pid} on {other.host}")
        # Two take-overs at once: the last rename wins, and whoever lost reads a foreign token below and steps back.
        write_json(path, vars(mine))
        if (holder := read_claim(path)) is None or holder.token != mine.token:
            raise ClaimedElsewhere(f"{folder.name} was claimed by another process at the same moment")
    try:
        yield mine
    finally:
        if (holder := read_claim(path)) is not None and holder.token == mine.token:
            path.unlink(missing_ok=True)


def heartbeat(folder: Path) -> float:
    """The newest sign of life of the cell in ``folder``, in Unix seconds (0.0 where there is none)."""
    newest = 0.0
    for name in ("progress.json", "events.jsonl", "claim.json"):
        with contextlib.suppress(OSError):
            newest = max(newest, (folder / name).stat().st_mtime)
    return newest


def _create(path: Path, claim: Claim) -> bool:
    """Make the claim file if there is none: a whole file is linked into place, so no reader sees half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".claim-{claim.token}")
    write_json(draft, vars(claim))
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
