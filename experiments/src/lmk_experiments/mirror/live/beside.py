"""The job's end: a process beside the job is told which cell is worked on, and is never waited for long.

It is a process and not a thread of the job: importing MLflow would take the interpreter from the training for seconds,
and a training that forks its loader while a thread holds some lock inherits that lock for ever. This one shares nothing
with the job but a pipe; whatever the server does to it, the job goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.mirror.store import StoreError, tracking_uri
from lmk_experiments.records import Cell

SECONDS_VARIABLE = "LMK_LIVE_SECONDS"
"""Between two looks of a job at its own records, in seconds; 0 turns it off."""
SECONDS = 15.0
END_SECONDS = 5.0
"""How long a job may wait for its last words to be taken, in seconds."""


@dataclass
class _Beside:
    process: subprocess.Popen[bytes]
    owner: int

    def tell(self, word: str, folder: Path) -> bool:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps([word, str(folder)]).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:  # it has ended; the records stand
            return False
        return True

    def hear(self, seconds: float) -> None:
        """Wait until it has answered, or for so long."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.process.stdout], [], [], left)[0]:
                os.read(self.process.stdout.fileno(), 4096)
                return


_beside: _Beside | None = None


@contextlib.contextmanager
def mirrored_live(cell: Cell) -> Generator[None]:
    """While this lasts, the run of ``cell`` follows its records, where the store is a server that jobs can write to.

    A database is never written by a job: `lmk sync` does that. At the end the job waits up to ``END_SECONDS`` for the
    last look. Nothing that goes wrong here is raised.
    """
    beside = _start(cell) if _is_wanted(cell) else None
    followed = beside is not None and beside.tell("follow", cell.folder)
    try:
        yield
    finally:
        if beside is not None and followed and beside.tell("leave", cell.folder):
            beside.hear(END_SECONDS)


def live_seconds() -> float:
    """Between two looks, in seconds; 0 where a job does not mirror itself."""
    try:
        return max(0.0, float(os.environ.get(SECONDS_VARIABLE, SECONDS)))
    except ValueError:
        return SECONDS


def _is_wanted(cell: Cell) -> bool:
    """Only cells of a grid have runs; a share of an evaluation has none."""
    try:
        server = tracking_uri(cell.root).startswith("http")
    except StoreError:
        return False
    return server and live_seconds() > 0 and (cell.root / "grids").is_dir()


def _start(cell: Cell) -> _Beside | None:
    """The process beside this one: one for all cells of a job, whose end it hears by a closed pipe."""
    global _beside
    if _beside is not None and _beside.owner == os.getpid() and _beside.process.poll() is None:
        return _beside
    command = [sys.executable, "-m", "lmk_experiments.mirror.live.follow", str(cell.root), str(os.getpid())]
    try:
        # In a session of its own: a Ctrl-C or a scheduler's signal to the job is the job's, and it hears of the end.
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        print(f"lmk: this job does not mirror itself ({error}); `lmk sync` does it later", file=sys.stderr, flush=True)
        return None
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)  # a process that was stopped and reads no more holds up nobody
    _beside = _Beside(process, os.getpid())
    return _beside
