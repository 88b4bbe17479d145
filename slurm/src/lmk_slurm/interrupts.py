"""Signals that ask the loop to stop, taken at points where stopping is safe."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """While active, SIGINT, SIGTERM and SIGHUP are recorded instead of raised anywhere in the code.

    A KeyboardInterrupt in the middle of starting a process would lose track of that process. A handler that the
    caller has set, or a signal that it ignores (nohup), is left as it is; so is everything outside the main thread.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def raise_if_any(self) -> None:
        """Raises KeyboardInterrupt after SIGINT, SystemExit after SIGTERM or SIGHUP."""
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is not None:
            raise SystemExit(128 + self.received)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            defaults = {signal.SIGINT: signal.default_int_handler}
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is defaults.get(number, signal.SIG_DFL):
                    self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # From here on a second Ctrl-C is a KeyboardInterrupt again: it cuts the grace period of the children short.
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
