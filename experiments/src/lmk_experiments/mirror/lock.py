"""One writer a store: a lock file that names who holds it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from lmk_experiments.errors import WorkFailed

_POLL_SECONDS = 0.1


class LockedError(WorkFailed):
    """Another process holds the lock; the message names its host and process."""


@contextlib.contextmanager
def locked(path: Path, *, wait_seconds: float = 30.0) -> Generator[None]:
    """Hold the lock file ``path``, waiting up to ``wait_seconds`` for whoever holds it.

    The kernel's lock on the open file decides among the processes of one machine, so a lock of a dead local process is
    free at once. Between machines that lock may not reach (some network file systems keep it to themselves), so the
    file's text counts there: a lock that names another host stands until that process empties it.

    Raises:
        LockedError: it is still held after ``wait_seconds``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_seconds
    with path.open("a+", encoding="utf-8") as stream:
        while not _take(stream):
            if time.monotonic() >= deadline:
                raise LockedError(_who(path, stream))
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            stream.truncate(0)
            stream.flush()


def _take(stream: TextIO) -> bool:
    """Try once to take the lock and to write our name into the file."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # A file system without locks: the text alone has to do.
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if _alive(_holder(stream)):
            return False
    if _holder(stream).get("host", socket.gethostname()) != socket.gethostname():
        fcntl.flock(stream, fcntl.LOCK_UN)
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds")
    stream.truncate(0)
    stream.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "since": now}))
    stream.flush()
    return True


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


def _who(path: Path, stream: TextIO) -> str:
    holder = _holder(stream)
    who = f"process {holder.get('pid', '?')} on {holder.get('host', 'an unknown host')}"
    hint = "" if holder.get("host") == socket.gethostname() else f"; if that process is gone, delete {path}"
    return f"{path} is held by {who} since {holder.get('since', '?')}{hint}"
