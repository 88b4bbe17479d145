"""Where training and evaluation report to. They know nothing of who listens."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Recorder(Protocol):
    """Listens to a training or an evaluation.

    It is called in the middle of the work and waited for, so every method should return at once. What a method raises
    ends the work: a recorder that must not do so, on a full disk for example, has to catch that itself.
    """

    def event(self, kind: str, **fields: Any) -> None:
        """Something happened once, for example ``event("resumed", step=120)``. Fields are plain JSON values."""
        ...

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Measured values by name, for example ``{"train/loss": 0.3}``, after ``step`` steps."""
        ...

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        """``done`` of ``total`` units of work are behind us."""
        ...


class NullRecorder:
    """A recorder that forgets everything."""

    def event(self, kind: str, **fields: Any) -> None:
        """Do nothing."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Do nothing."""

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        """Do nothing."""


class PrintRecorder:
    """A recorder that prints: every event at once, and now and then how far the work is, with the last loss.

    It prints to stderr: ``resumed: step 120``, ``step 121/400, train/loss 0.25``.

    Args:
        every_seconds: Between two lines of progress; the last one always comes.
    """

    def __init__(self, every_seconds: float = 10.0) -> None:
        self.every_seconds = every_seconds
        self._said: float | None = None
        self._values = ""

    def event(self, kind: str, **fields: Any) -> None:
        """Print the event with its fields."""
        said = ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)
        self._print(f"{kind.replace('_', ' ')}: {said}" if said else kind.replace("_", " "))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Remember the losses for the next line, and print what was measured on held-out data."""
        losses = [f"{name} {value:.4g}" for name, value in values.items() if name.endswith("loss")]
        if losses:
            self._values = "".join(f", {loss}" for loss in losses)
        held_out = [f"{name} {value:.4g}" for name, value in values.items() if name.startswith("validation/")]
        if held_out:
            self._print(f"step {step}: {', '.join(held_out)}")

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        """Print a line if it is time for one."""
        now = time.monotonic()
        if done == total or self._said is None or now - self._said >= self.every_seconds:
            self._said = now
            self._print(f"{unit} {done}/{total}{self._values}")

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
