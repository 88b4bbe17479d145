"""The signals that tell a training to save and to stop, and how it ends by them. Imports no torch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

SIGNALS: tuple[int, ...] = tuple(int(getattr(signal, name)) for name in ("SIGUSR2", "SIGTERM") if hasattr(signal, name))
"""In the order in which they are handed on: a scheduler's request to queue again comes before the order to end."""

Handler = Callable[[int, FrameType | None], Any]


def in_order(numbers: Iterable[int]) -> list[int]:
    """Some of `SIGNALS`, in their order."""
    return sorted(numbers, key=SIGNALS.index)


class Preempted(SystemExit):
    """A training was told to stop, and nobody else obeys that: its exit code is 128 and the signal, as a shell has it.

    Attributes:
        signal: Which one.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = number


class Handlers:
    """The handlers of ``SIGNALS`` for a while; what was there before comes back, and can be called meanwhile.

    A signal that is ignored stays so, and outside of the main thread, where Python sets no handlers, nothing happens.
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Puts the handler in place."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN and before is not None:  # None: not set from Python, and so not ours
                self._before[number] = before
                signal.signal(number, self.handler)

    def restore(self) -> None:
        """Puts back what was there."""
        for number, before in self._before.items():
            signal.signal(number, before)

    def hand_on(self, number: int, frame: FrameType | None = None) -> None:
        """Does what would have happened without this one; a handler that was there may return.

        Raises:
            Preempted: There was none.
        """
        before = self._before.get(number)
        if not callable(before):
            raise Preempted(number)
        before(number, frame)
