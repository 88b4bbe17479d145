"""One writer a cell: an advisory claim that names who is at work.

A claim keeps two people (or a restarted ``lmk run`` and the job it left behind) from training the same cell at once.
It is advisory: ``DONE.json`` alone says that a cell is finished. On one host a claim of a process that is gone is taken
over at once; a claim of another host is respected while its heartbeat is younger than ``STALE_SECONDS``. A claimant
touches its claim every ``BEAT_SECONDS``, however long its work says nothing.

A scheduler queues a job again when its node is lost, although its process may live on there. So a claimant looks every
``LOOK_SECONDS`` whether the claim is still its own, and who takes one over waits ``FENCE_SECONDS`` before it works,
unless the one before is known to be gone: by then the other has stopped, and the two never write together.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import psutil

from lmk_experiments.errors import WorkFailed
from lmk_experiments.records.atomic import read_record, write_json
from lmk_experiments.records.shapes import CLAIM, RecordError

try:
    import fcntl
except ImportError:  # not on Windows: a claim is advisory, and there it is a little more so
    fcntl = None

STALE_SECONDS = 600.0
"""A claim of another host without a sign of life for this long (seconds) is taken over."""
BEAT_SECONDS = 60.0
"""Between two signs of life of a claimant, in seconds."""
LOOK_SECONDS = 2.0
"""Between two looks of a claimant at its own claim, in seconds."""
FENCE_SECONDS = 10.0
"""From taking over a claim to the first work, in seconds: several times what the other needs to notice."""
FILE = "claim.json"


class ClaimedElsewhere(WorkFailed):
    """Somebody else is at work on this cell."""


class ClaimLost(WorkFailed):
    """Somebody took this claim over, because its holder gave no sign of life."""


@dataclass(frozen=True)
class Claim:
    """Who is at work on a cell."""

    host: str
    pid: int
    started: float
    """When the process started (Unix seconds), so that a re-used process id is not taken for it."""
    token: str
    job: str | None = None
    """The scheduler's job that the process belongs to, such as ``17_3``."""
    revoked: float | None = None
    """When somebody who knows that its job has ended took it away (Unix seconds)."""

    def alive(self, heartbeat: float) -> bool:
        """Whether the claimant still works; ``heartbeat`` is the cell's newest sign of life in Unix seconds."""
        if self.revoked is not None:
            return False
        if self.host != socket.gethostname():
            return time.time() - heartbeat < STALE_SECONDS
        return self.running()

    def running(self) -> bool:
        """Whether its process runs on this host."""
        try:
            process = psutil.Process(self.pid)
            # One that was killed stays in the list until whoever started it has looked.
            return abs(process.create_time() - self.started) < 2.0 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def read_claim(path: Path) -> Claim | None:
    """The claim in ``path``, or ``None`` where there is none that can be read."""
    try:
        return checked_claim(path)
    except ValueError:
        return None


def checked_claim(path: Path) -> Claim | None:
    """The claim in ``path``, or ``None`` where there is none.

    Raises:
        ValueError: it cannot be read; the message names the file and the key.
    """
    value = read_record(path, CLAIM)
    if value is None:
        return None
    if not 0 < value["pid"] < 2**31:
        raise RecordError(f"{path}: key 'pid' is {value['pid']}; expected the number of a process")
    return Claim(value["host"], value["pid"], value["started"], value["token"], value.get("job"), value.get("revoked"))


@contextlib.contextmanager
def claimed(folder: Path, on_loss: Callable[[], None] | None = None) -> Generator[Claim]:
    """Hold the claim of the cell in ``folder``.

    Args:
        on_loss: called from another thread, once, when the claim has become somebody else's while this lasts. What
            works on the cell must stop there and then.

    Raises:
        ClaimedElsewhere: a living process holds it; the message names host and process.
    """
    path = folder / FILE
    mine = Claim(socket.gethostname(), os.getpid(), psutil.Process().create_time(), uuid.uuid4().hex, scheduler_job())
    wait = 0.0
    with _one_at_a_time(folder):
        if not _create(path, mine):
            other = read_claim(path)
            # A job that was queued again is the same job: its earlier start, maybe on a lost node, is over.
            again = other is not None and other.job is not None and other.job == mine.job
            if other is not None and not again and other.alive(heartbeat(folder)):
                raise ClaimedElsewhere(f"{folder.name} is being worked on by process {other.pid} on {other.host}")
            wait = 0.0 if other is None else _fence(other)
            write_json(path, vars(mine))
    stop = threading.Event()
    threading.Thread(target=_watch, args=(path, mine, stop, on_loss), name="claim", daemon=True).start()
    try:
        if wait:
            print(f"{folder.name}: another start of this cell may still run; waiting {wait:.0f} s", flush=True)
            time.sleep(wait)
        yield mine
    finally:
        stop.set()
        if holds(folder, mine):
            path.unlink(missing_ok=True)


def revoke(folder: Path, job: str) -> None:
    """Take the claim of a scheduler's job that has ended away from it.

    Its process is most likely gone. If it lives on, on a node that the scheduler has lost, it stops when it sees this.
    """
    path = folder / FILE
    if (claim := read_claim(path)) is None or claim.job != job or claim.revoked is not None:
        return
    with _one_at_a_time(folder):
        if holds(folder, claim):
            alive = path.stat().st_mtime
            write_json(path, {**vars(claim), "revoked": time.time()})
            with contextlib.suppress(OSError):  # this is no sign of life of whoever held it
                os.utime(path, (alive, alive))


def _fence(other: Claim) -> float:
    """How long to wait after taking over from ``other``, in seconds."""
    if other.host == socket.gethostname() and not other.running():
        return 0.0
    return FENCE_SECONDS if other.revoked is None else max(0.0, other.revoked + FENCE_SECONDS - time.time())


def holds(folder: Path, claim: Claim) -> bool:
    """Whether ``claim`` is still the one of the cell in ``folder``."""
    found = read_claim(folder / FILE)
    return found is not None and found.token == claim.token and found.revoked is None


def scheduler_job() -> str | None:
    """SLURM's id of the job that this process belongs to (``17_3`` for a task of an array), or ``None``."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def heartbeat(folder: Path) -> float:
    """The newest sign of life of the cell in ``folder``, in Unix seconds (0.0 where there is none)."""
    newest = 0.0
    for name in ("progress.json", "events.jsonl", FILE):
        with contextlib.suppress(OSError):
            newest = max(newest, (folder / name).stat().st_mtime)
    return newest


def _watch(path: Path, claim: Claim, stop: threading.Event, on_loss: Callable[[], None] | None) -> None:
    """Touch the claim until told to stop, or until it is somebody else's."""
    touched, gone = time.monotonic(), 0
    while not stop.wait(LOOK_SECONDS):
        try:
            found = checked_claim(path)
        except (ValueError, OSError):  # a disk that does not answer takes nothing away
            continue
        gone = gone + 1 if found is None else 0
        if gone > 1 or (found is not None and (found.token != claim.token or found.revoked is not None)):
            if on_loss is not None and not stop.is_set():
                on_loss()
            return
        if found is not None and time.monotonic() - touched >= BEAT_SECONDS:
            touched = time.monotonic()
            with contextlib.suppress(OSError):
                os.utime(path)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Generator[None]:
    """Between looking at a claim and taking it over, nobody else may do the same."""
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    with (folder / "claim.lock").open("w") as stream:
        # A file system without locks (some network ones): the claim stays advisory there.
        with contextlib.suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _create(path: Path, claim: Claim) -> bool:
    """Make the claim file if there is none: a whole file is linked into place, so no reader sees half of one."""
    draft = path.with_name(f".claim-{claim.token}")
    write_json(draft, vars(claim))
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
