"""The line between the first rank of an srun step and the others: words from the first, and who failed or vanished.

It is there before torch is imported and while no collective can run. Its messages are lines of JSON: nothing that comes
over the network is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from lmk_train.ranks.failures import RankFailedError, RankFailure, cause_of, describe
from lmk_train.ranks.place import SlurmPlace, slurm_place
from lmk_train.ranks.signals import Preempted

PATIENCE_SECONDS = 900.0
"""How long the ranks wait for each other to start: nodes come up one by one, and read the code from one disk."""

_RETRY_SECONDS = 0.2
_GONE = "it ended without a word: killed, out of memory, or its node was lost"


class FirstEnd:
    """The first rank's end: it listens, tells all others what to do, and learns which of them failed.

    Args:
        place: The first rank's.

    Raises:
        OSError: None of the step's ports is free.
    """

    def __init__(self, place: SlurmPlace) -> None:
        self.place = place
        self.hosts: dict[int, str] = {0: socket.gethostname()}
        self._failures: list[RankFailure] = []
        self._on_failure: Callable[[RankFailure], None] | None = None
        self._untold: list[RankFailure] = []
        self._words: list[dict[str, Any]] = []
        self._peers: list[_Peer] = []
        self._changed = threading.Condition()
        self._socket = _listen(place)
        threading.Thread(target=self._accept, name="ranks", daemon=True).start()

    def listen(self, on_failure: Callable[[RankFailure], None]) -> None:
        """Tells each failure of another rank: one that was there before now, others as they happen, from a thread."""
        with self._changed:
            self._on_failure = on_failure
            missed, self._untold = self._untold, []
        for failure in missed:
            on_failure(failure)

    def everyone(self, seconds: float = PATIENCE_SECONDS) -> list[str]:
        """Waits until all ranks are on the line; the host of each.

        Raises:
            RankFailedError: One failed already, or they were not all here in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._failures or len(self.hosts) == self.place.size, timeout=seconds)
            if self._failures:
                raise RankFailedError(str(cause_of(self._failures)))
            missing = sorted(set(range(self.place.size)) - set(self.hosts))
            if missing:
                raise RankFailedError(
                    f"of {self.place.size} ranks, {', '.join(map(str, missing))} did not come within {seconds:g} s"
                )
            return [self.hosts[rank] for rank in range(self.place.size)]

    def tell(self, **word: Any) -> None:
        """Tells every other rank, also those that are not on the line yet, in order."""
        with self._changed:
            self._words.append(word)
            for peer in self._peers:
                peer.send(word)

    def failure(self, seconds: float) -> RankFailure | None:
        """The failure of another rank, waiting ``seconds`` for one; the cause where there are several."""
        with self._changed:
            self._changed.wait_for(lambda: self._failures, timeout=seconds)
            if not self._failures:
                return None
            # An echo is heard before its cause when the cause is still unwinding.
            self._changed.wait_for(lambda: not cause_of(self._failures).echo, timeout=seconds)
            return cause_of(self._failures)

    def close(self) -> None:
        """Listens no more; what was said is still delivered."""
        self._socket.close()
        for peer in self._peers:
            peer.connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), name="ranks", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        peer = _Peer(connection)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            hello = peer.receive(None)
            if hello["step"] != self.place.step:
                peer.send({"step": self.place.step})
                connection.close()
                return
            with self._changed:
                peer.rank, peer.host = int(hello["rank"]), str(hello["host"])
                peer.send({"step": self.place.step})
                for word in self._words:
                    peer.send(word)
                self._peers.append(peer)
                self.hosts[peer.rank] = peer.host
                self._changed.notify_all()
            self._hear(peer)

    def _hear(self, peer: _Peer) -> None:
        said: dict[str, Any] = {"reason": _GONE}
        with contextlib.suppress(OSError, ValueError, EOFError):
            said = peer.receive(None)
        if said.get("bye"):
            return
        known = {key: said[key] for key in ("reason", "trace", "echo") if key in said}
        failure = RankFailure(peer.rank, self.place.size, peer.host, at=time.monotonic(), **known)
        print(failure, file=sys.stderr, flush=True)
        try:
            # Before this process acts on it, which may end it: what is told here goes into its records.
            if not failure.echo:
                self._tell_of(failure)
        finally:
            with self._changed:
                self._failures.append(failure)
                self._changed.notify_all()

    def _tell_of(self, failure: RankFailure) -> None:
        with self._changed:
            tell = self._on_failure
            if tell is None:  # a rank that failed while this one still read its configuration
                self._untold.append(failure)
        if tell is not None:
            tell(failure)


class OtherEnd:
    """Any other rank's end: it hears what the first rank says, and says how it ended itself.

    Raises:
        RankFailedError: The first rank was not found in time.
    """

    def __init__(self, place: SlurmPlace, seconds: float = PATIENCE_SECONDS) -> None:
        self.place = place
        self._peer, self.address = _find(place, time.monotonic() + seconds)

    def told(self, seconds: float | None = None) -> dict[str, Any]:
        """The next word of the first rank.

        Raises:
            RankFailedError: It is gone, or said nothing within ``seconds``.
        """
        try:
            return self._peer.receive(seconds)
        except (OSError, EOFError, ValueError) as error:
            raise RankFailedError(f"{self.place}: the first rank said no more ({describe(error)['reason']})") from None

    def report(self, error: BaseException) -> None:
        """Says how this rank failed: before it ends, so that the first rank knows the cause."""
        with contextlib.suppress(OSError):
            self._peer.send(describe(error))

    def close(self) -> None:
        """Says that this rank has ended well (nothing more is heard of one that has reported an error)."""
        with contextlib.suppress(OSError):
            self._peer.send({"bye": True})
            self._peer.connection.close()


@contextlib.contextmanager
def joined_step() -> Generator[FirstEnd | OtherEnd | None]:
    """This process's end of the line of its srun step; ``None`` where it is no task of a step of several.

    An error that leaves the context is reported to the first rank; to be preempted is none.
    """
    place = slurm_place()
    if place is None:
        yield None
        return
    end = FirstEnd(place) if place.rank == 0 else OtherEnd(place)
    try:
        yield end
        if isinstance(end, FirstEnd):
            with contextlib.suppress(RankFailedError):
                end.everyone()  # a task that starts late must find what this one has said
    except BaseException as error:
        if isinstance(end, OtherEnd) and not isinstance(error, Preempted):
            end.report(error)
        raise
    finally:
        end.close()


@dataclass(eq=False)
class _Peer:
    connection: socket.socket
    rank: int = -1
    host: str = ""
    _kept: bytes = field(default=b"", init=False)

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it is gone: its own thread notices
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, seconds: float | None) -> dict[str, Any]:
        """The next message; EOFError at the end, TimeoutError when none came in time."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._kept:
            self.connection.settimeout(None if deadline is None else max(0.01, deadline - time.monotonic()))
            more = self.connection.recv(1 << 16)
            if not more:
                raise EOFError("the connection was closed")
            self._kept += more
        line, _, self._kept = self._kept.partition(b"\n")
        return json.loads(line)


def _listen(place: SlurmPlace) -> socket.socket:
    for port in place.ports:
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), backlog=place.size)
    raise OSError(f"none of the ports {', '.join(map(str, place.ports))} is free on {socket.gethostname()}")


def _find(place: SlurmPlace, deadline: float) -> tuple[_Peer, str]:
    """A connection to the first rank: at each port in turn, until one answers for this very step."""
    last = "nobody listens"
    while time.monotonic() < deadline:
        for port in place.ports:
            try:
                peer = _Peer(socket.create_connection((place.address, port), timeout=5))
            except OSError as error:
                last = str(error)
                continue
            try:
                peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                peer.send({"step": place.step, "rank": place.rank, "host": socket.gethostname()})
                if peer.receive(5).get("step") == place.step:
                    return peer, place.address
                last = f"port {port} belongs to another step"
            except (OSError, EOFError, ValueError, AttributeError) as error:
                last = str(error)
            peer.connection.close()
        time.sleep(_RETRY_SECONDS)
    raise RankFailedError(f"{place}: the first rank was not found on {place.address} ({last})")
