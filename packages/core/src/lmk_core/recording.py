"""Where training and evaluation report to. They know nothing of who listens."""

from __future__ import annotations

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
