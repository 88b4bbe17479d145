"""One writer a store: a lock file that names who holds it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from lmk_experiments.errors import WorkFailed
from lmk_experiments.records.claim import BEAT_SECONDS, STALE_SECONDS
from lmk_experiments.records.tickets import user_name

_POLL_SECONDS = 0.1


class LockedError(WorkFailed):
    """Another process holds the lock; the message names its host, process and user."""


@contextlib.contextmanager
def locked(
    path: Path, *, wait_seconds: float = 30.0, stale_seconds: float = STALE_SECONDS, what: str | None = None
) -> Generator[None]:
    """Hold the lock file ``path``, waiting up to ``wait_seconds`` for whoever holds it.

    The kernel's lock on the open file decides among the processes of one machine, so a lock of a dead local process is
    free at once. Between machines that lock may not reach (some network file systems keep it to themselves), so the
    file's text counts there: a lock that names another host stands until that process empties it, or has not touched
    it for ``stale_seconds``. A holder touches its lock ten times meanwhile, as a cell's claimant does.

    Args:
        stale_seconds: the same for all that use this lock. A lock that is held for moments only may have a short one.
        what: says in the error what is locked; the file's path by default.

    Raises:
        LockedError: it is still held after ``wait_seconds``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_seconds
    with path.open("a+", encoding="utf-8") as stream:
        while (mine := _take(stream, stale_seconds)) is None:
            if time.monotonic() >= deadline:
                raise LockedError(_who(path, stream, stale_seconds, what or str(path)))
            time.sleep(_POLL_SECONDS)
        stop = threading.Event()
        beat_seconds = min(BEAT_SECONDS, stale_seconds / 10)
        beat = threading.Thread(
            target=_beat, args=(stream.fileno(), mine, stop, beat_seconds), name="lock", daemon=True
        )
        beat.start()
        try:
            yield
        finally:
            stop.set()
            beat.join()
            # Whoever took it over while we gave no sign of life (a laptop that slept) holds it now.
            if _text(stream.fileno()) == mine:
                stream.truncate(0)
                stream.flush()


def _take(stream: TextIO, stale_seconds: float) -> str | None:
    """Try once to take the lock. Returns what was written into the file, or ``None`` where it is held."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        # A file system without locks: the text alone has to do.
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if _alive(_holder(stream)):
            return None
    elsewhere = _holder(stream).get("host", socket.gethostname()) != socket.gethostname()
    if elsewhere and _silent_seconds(stream) < stale_seconds:
        with contextlib.suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_UN)
        return None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    mine = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "user": user_name(), "since": now})
    stream.truncate(0)
    stream.write(mine)
    stream.flush()
    return mine


def _beat(descriptor: int, mine: str, stop: threading.Event, seconds: float) -> None:
    """Touch the lock until told to stop, or until it is somebody else's."""
    while not stop.wait(seconds) and _text(descriptor) == mine:
        with contextlib.suppress(OSError):
            os.utime(descriptor)


def _text(descriptor: int) -> str:
    return os.pread(descriptor, 4096, 0).decode("utf-8", "replace")


def _silent_seconds(stream: TextIO) -> float:
    """How long ago the holder touched the lock."""
    return time.time() - os.fstat(stream.fileno()).st_mtime


def _holder(stream: TextIO) -> dict[str, str]:
    stream.seek(0)
    try:
        value = json.loads(stream.read() or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _alive(holder: dict[str, str]) -> bool:
    """Whether the process of this host that ``holder`` names still runs."""
    if "pid" not in holder or holder.get("host") != socket.gethostname():
        return False
    return Path("/proc", str(holder["pid"])).exists() if Path("/proc").exists() else True


def _who(path: Path, stream: TextIO, stale_seconds: float, what: str) -> str:
    holder = _holder(stream)
    user = f" of {holder['user']}" if "user" in holder else ""
    who = f"process {holder.get('pid', '?')}{user} on {holder.get('host', 'an unknown host')}"
    hint = ""
    if holder.get("host") != socket.gethostname():
        left = max(0.0, stale_seconds - _silent_seconds(stream))
        hint = f"; if that process is gone, the lock is free in {left:.0f} seconds, or at once when you delete {path}"
    return f"{what} is held by {who} since {holder.get('since', '?')}{hint}"
