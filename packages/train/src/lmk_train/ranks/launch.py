"""Starts the ranks of this node, listens to them, and lets none outlive another.

Torch's elastic launcher does nearly that; it leaves its signal handlers behind in the process of whoever called, takes
an echo ("connection closed by peer") for the cause when it looks late, and its processes cannot report to a recorder
that lives here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore

from lmk_core.recording import Recorder
from lmk_train.config import AnyConfig
from lmk_train.ranks.failures import RankFailedError, RankFailure, cause_of, describe, packed, unpacked
from lmk_train.ranks.place import Place
from lmk_train.ranks.signals import SIGNALS, Handlers, Preempted, in_order

CHILD = "lmk_train.ranks.child"
"""The module that a rank runs."""

_LOOK_SECONDS = 0.1
_SETTLE_SECONDS = 1.0
"""After a first failure: how long others may still say that theirs was the cause."""

_LEAVE_SECONDS = 10.0


def launch(config: AnyConfig, folder: Path, recorder: Recorder) -> None:
    """Trains with ``config.runtime.devices`` ranks on this node and returns when all have ended.

    The first rank's reports come to ``recorder`` here, in the calling thread. When a rank fails, the others are killed
    at once; so they are when this process is interrupted or killed. A signal that tells it to save and stop goes to all
    ranks, and when they have saved, on to the handler that was here before; so does one that a rank alone was sent.

    Raises:
        RankFailedError: A rank was killed, or raised what cannot be brought here; the message names it.
        Exception: What a rank raised, with a note that names the rank and holds its traceback.
        Preempted: This process was told to stop (SIGTERM, SIGUSR2), and no handler of before has raised.
    """
    size = config.runtime.devices
    # Held here, so that no other process can take the port before the ranks do.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    spec = {"config": config.model_dump(mode="json"), "folder": str(folder), "port": store.port}
    ranks: list[_Rank] = []
    relay = _Relay()
    relay.install()
    try:
        for number in range(size):
            ranks.append(_Rank.start(Place(number, size, number), spec))
        preempted = _watch(ranks, recorder, relay)
    finally:
        for rank in ranks:
            rank.kill()
        relay.restore()
    if preempted:
        # Also what came too late for the ranks: a request to queue again must not get lost behind an order to end.
        for number in in_order({preempted, *relay.told, *relay.received}):
            relay.hand_on(number)
        raise Preempted(preempted)


class _Relay(Handlers):
    """Takes signals for the ranks of this process."""

    def __init__(self) -> None:
        super().__init__(lambda number, _: self.received.append(number))
        self.received: list[int] = []
        self.told: set[int] = set()
        """What the ranks have been told."""

    def pass_on(self, ranks: list[_Rank]) -> None:
        """Tells the ranks what was received since."""
        while self.received:
            number = self.received.pop(0)
            self.told.add(number)
            for rank in ranks:
                if not rank.ended:
                    with contextlib.suppress(ProcessLookupError):
                        rank.process.send_signal(number)


@dataclass(eq=False)
class _Rank:
    place: Place
    process: subprocess.Popen[bytes]
    connection: Connection
    done: bool = False
    preempted: int = 0
    """The signal by which it has saved and stopped."""
    failure: RankFailure | None = None
    error: str = ""
    """The pickled exception, as text."""

    @classmethod
    def start(cls, place: Place, spec: dict[str, Any]) -> _Rank:
        ours, theirs = Pipe()
        # The packages may be on the path of this process alone; "" is its folder.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # noqa: PTH100 - "" is the current folder
        environment = {**os.environ, "PYTHONPATH": path}
        if spec["config"]["runtime"]["threads"] is None:
            environment.setdefault("OMP_NUM_THREADS", "1")  # a rank with all cores to itself would slow all others
        process = subprocess.Popen(  # noqa: S603 - a list, and no shell
            [sys.executable, "-P", "-m", CHILD, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for this process, which then ends its ranks
        )
        theirs.close()
        rank = cls(place, process, ours)
        with contextlib.suppress(OSError):  # it has ended already: that is noticed soon
            rank.send({**spec, "rank": place.rank, "size": place.size})
        return rank

    def send(self, message: dict[str, Any]) -> None:
        self.connection.send_bytes(json.dumps(message).encode())

    def hear(self, recorder: Recorder) -> None:
        """Takes one message, if there is one."""
        try:
            message = json.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.connection.close()
            return
        if "call" in message:
            answer = _call(recorder, message)
            with contextlib.suppress(OSError):  # it was ended while it waited: that is noticed soon
                self.send(answer)
        elif "failed" in message:
            self.error = message["error"]
            self._fail(**message["failed"])
        elif "preempted" in message:
            self.preempted = message["preempted"]
        else:
            self.done = True

    def look(self) -> None:
        """Whether the process has ended without having said how."""
        code = self.process.poll()
        if code is None or self.ended or self._readable():
            return
        number = -code if code < 0 else code - 128
        if number in SIGNALS:  # it had no handler yet, or no time to say so
            self.preempted = number
            return
        if code >= 0:
            self._fail(reason=f"it ended with exit code {code}, and said no more than its log")
        else:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            hint = " (the system does this when memory runs out)" if -code == signal.SIGKILL else ""
            self._fail(reason=f"it was ended by {name}{hint}")

    def _readable(self) -> bool:
        return not self.connection.closed and self.connection.poll()

    def _fail(self, reason: str, trace: str = "", *, echo: bool = False, at: float | None = None) -> None:
        at = time.monotonic() if at is None else at
        place = self.place
        self.failure = RankFailure(place.rank, place.size, socket.gethostname(), reason, trace, echo, at)

    @property
    def ended(self) -> bool:
        return self.done or bool(self.preempted) or self.failure is not None

    def kill(self) -> None:
        """With everything that it has started: its data workers are of its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.close()


def _watch(ranks: list[_Rank], recorder: Recorder, relay: _Relay) -> int:
    """Serves the ranks until all are done, or have been preempted: then by which signal, else 0.

    Raises:
        RankFailedError, Exception: As :func:`launch`.
    """
    deadline: float | None = None
    while not all(rank.ended for rank in ranks):
        relay.pass_on(ranks)
        _serve(ranks, recorder)
        preempted = any(rank.preempted for rank in ranks)
        failures = [rank.failure for rank in ranks if rank.failure is not None]
        if (failures or preempted) and deadline is None:
            deadline = time.monotonic() + (_LEAVE_SECONDS if preempted else _SETTLE_SECONDS)
        late = deadline is not None and time.monotonic() > deadline
        if late or (failures and not cause_of(failures).echo):
            break
    failed = [rank for rank in ranks if rank.failure is not None]
    signals = [rank.preempted for rank in ranks if rank.preempted]
    if failed:
        cause = cause_of(rank.failure for rank in failed if rank.failure is not None)
        if not (signals and cause.echo):  # one that has stopped is missed by others, which is no failure
            recorder.event("rank_failed", **cause.event())
            raise _error(next(rank for rank in failed if rank.failure is cause))
    for rank in ranks:
        with contextlib.suppress(subprocess.TimeoutExpired):  # its work is done: it only leaves
            rank.process.wait(0 if signals else _LEAVE_SECONDS)
    return signals[0] if signals else 0


def _serve(ranks: list[_Rank], recorder: Recorder) -> None:
    open_ones = {rank.connection: rank for rank in ranks if not rank.connection.closed}
    ready = wait(list(open_ones), timeout=_LOOK_SECONDS) if open_ones else []
    if not open_ones:
        time.sleep(_LOOK_SECONDS)
    # In this order: one that has died did so before another could say that it lost it.
    for rank in ranks:
        rank.look()
    for connection in ready:
        open_ones[connection].hear(recorder)  # ty: ignore[invalid-argument-type]


def _call(recorder: Recorder, message: dict[str, Any]) -> dict[str, Any]:
    """Calls the recorder; what it raises is raised where the training called it."""
    method = {"event": recorder.event, "metrics": recorder.metrics, "progress": recorder.progress}[message["call"]]
    try:
        method(*message["values"], **message["named"])
    except Exception as error:  # noqa: BLE001 - brought to the first rank, whose error it is
        return {"error": packed(error), **describe(error)}
    return {}


def _error(rank: _Rank) -> BaseException:
    failure = rank.failure
    assert failure is not None
    error = unpacked(rank.error) if rank.error else None
    if not isinstance(error, Exception):
        error = RankFailedError(str(failure))
    error.add_note(f"raised on rank {failure.rank} of {failure.size} on {failure.host}:\n{failure.trace}".rstrip())
    return error
