"""The other end: a small process that reads a job's records now and then and writes them to the tracking server."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lmk_experiments.mirror.address import explain
from lmk_experiments.mirror.cells import PARENT, write_cell
from lmk_experiments.mirror.live.beside import live_seconds
from lmk_experiments.mirror.lock import LockedError
from lmk_experiments.mirror.names import cut
from lmk_experiments.mirror.read import runs_with
from lmk_experiments.mirror.store import ROOT_ID, Store, open_store, tracking_uri, without_credentials
from lmk_experiments.mirror.wanted import Place, places, wanted
from lmk_experiments.mirror.writer import Writer
from lmk_experiments.records import load_grids
from lmk_experiments.records.tickets import user_name

if TYPE_CHECKING:
    from mlflow.entities import Run

CONNECT_SECONDS = 3.0
REQUEST_SECONDS = 5
MOST_TIMES = 20
"""Of a server that does not answer the tries become rarer, up to so many times the usual pause."""
REASON_CHARACTERS = 250
LAST_SECONDS = 20.0
"""How long this process outlives its job, in seconds."""
LOCK_SECONDS = 3.0
"""How long the last look at a cell waits for a sync that writes it just now, in seconds."""
_NICE = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Follower:
    """Mirrors the cells of one job, and says once when the server is away and once when it is back."""

    def __init__(self, root: Path, say: Callable[[str], None], *, seconds: float) -> None:
        self.root, self.say, self.seconds = root, say, seconds
        self.cells: dict[Path, Place] = {}
        self.writer: Writer | None = None
        self.parents: dict[tuple[str, str], str] = {}
        self.away = 0
        """Looks in a row that failed."""
        self.due = 0.0
        self.told: set[str] = set()

    def follow(self, folder: Path) -> None:
        """Look at this cell from now on, if some grid has it."""
        read = folder.parent.name == "evaluations"
        for place in places(load_grids(self.root)[0]).values():
            if place.id == folder.name and (place.kind == "evaluation") == read:
                self.cells[folder] = place
            self.due = min(self.due, time.monotonic()) if not self.away else self.due

    def leave(self, folder: Path) -> None:
        """Look at this cell for the last time, unless the server is known to be away."""
        if folder in self.cells and not (self.away and time.monotonic() < self.due):
            self._look([folder], last=True)
        self.cells.pop(folder, None)

    def look(self) -> None:
        """Look at every cell if it is time to."""
        if self.cells and time.monotonic() >= self.due:
            self._look(list(self.cells), last=False)

    def _look(self, folders: list[Path], *, last: bool) -> None:
        try:
            for folder in folders:
                self._write(self.cells[folder], LOCK_SECONDS if last else 0.0)
        except Exception as error:  # noqa: BLE001 - whatever it is, the records hold everything and the job goes on
            self.writer = None
            self._failed(error)
            return
        if self.away:
            self.say("the tracking server answers again; this job mirrors itself")
        self.away, self.due = 0, time.monotonic() + self.seconds

    def _write(self, place: Place, wait_seconds: float) -> None:
        try:
            found = wanted(self.root, place)
        except ValueError as error:  # a record that cannot be read is no fault of the server
            self._say_once(str(error))
            return
        if found is None:
            return
        writer = self._open()
        try:
            write_cell(
                writer, found, None, lambda run: self._parent(writer.store, place, run), wait_seconds=wait_seconds
            )
        except LockedError:
            return  # a sync is just doing the same
        if writer.refusals:
            _knock(tracking_uri(self.root))  # where nobody listens any more, that is said, and not of every file
        for warning in writer.warnings:
            self._say_once(warning)
        writer.warnings.clear()
        writer.refusals = 0

    def _open(self) -> Writer:
        if self.writer is None:
            uri = tracking_uri(self.root)
            _knock(uri)
            self.writer = Writer(open_store(self.root, uri), user_name())
        return self.writer

    def _parent(self, store: Store, place: Place, run: Run | None) -> str | None:
        """The parent that the run has got, else one that a sync has made. A job makes none: two could at once."""
        if run is not None and PARENT in run.data.tags:
            return run.data.tags[PARENT]
        for grid in sorted(place.grids):
            tags = {"lmk.kind": "grid", "lmk.grid": grid, ROOT_ID: store.root.id}
            known = self.parents.get((place.kind, grid))
            found = known or next(iter(runs_with(store, place.kind, tags)), None)
            if found is not None:
                self.parents[place.kind, grid] = found
                return found
        return None

    def _failed(self, error: Exception) -> None:
        if not self.away:
            address = without_credentials(tracking_uri(self.root))
            # The cause alone: what the store's own error advises is said here in other words.
            reason = explain(error.__cause__ or error, address, tracking_uri(self.root))
            self.say(
                f"the tracking server {address} cannot be used now; the job goes on, its records are complete, and "
                f"`lmk sync` fills in later ({cut(reason, REASON_CHARACTERS)})"
            )
        self.away += 1
        self.due = time.monotonic() + self.seconds * min(MOST_TIMES, 2 ** min(self.away, 10))

    def _say_once(self, text: str) -> None:
        if text not in self.told and len(self.told) < 100:
            self.told.add(text)
            self.say(f"warning: {text}")


def main() -> None:
    """Follow the cells that standard input names until it is closed or the job is gone; then look once more and end."""
    root, job = Path(sys.argv[1]).resolve(), int(sys.argv[2])
    for number in _SIGNALS:  # it hears of the job's end from the job, and then has something to say
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_after, args=(job,), name="end", daemon=True).start()
    _give_way()
    os.environ |= {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS)}
    follower = Follower(root, _say, seconds=live_seconds())
    for line in _lines(job, follower.look):
        try:
            word, folder = json.loads(line)
            (follower.follow if word == "follow" else follower.leave)(Path(folder))
        except (ValueError, OSError) as error:  # a record that cannot be read
            _say(f"warning: {error}")
        if b'"leave"' in line:
            with contextlib.suppress(OSError):  # the job did not wait so long and has ended
                os.write(1, b"left\n")
    for folder in list(follower.cells):
        follower.leave(folder)


def _give_way() -> None:
    """Leave the processor to the job, also where the kernel shares it out by sessions, of which this has its own."""
    os.nice(_NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICE), encoding="utf-8")


def _end_after(job: int) -> None:
    """End this process ``LAST_SECONDS`` after its job, whatever it waits for just then, such as a name server."""
    while os.getppid() == job:
        time.sleep(1.0)
    time.sleep(LAST_SECONDS)
    os._exit(0)


def _lines(job: int, idle: Callable[[], None]) -> Generator[bytes]:
    """The lines of standard input as they come; ``idle`` is called between them, once a second or so."""
    rest = b""
    while True:
        if not select.select([0], [], [], 1.0)[0]:
            # A short job may be over before this process has begun: what it said is read all the same.
            if os.getppid() != job:
                return
            idle()
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        idle()


def _knock(uri: str) -> None:
    """A quick look whether anybody listens, before MLflow is imported and asks at length; behind a proxy, none."""
    parts = urlsplit(uri)
    host = parts.hostname or ""
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # whoever read the job's log is gone
        print(f"lmk: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
