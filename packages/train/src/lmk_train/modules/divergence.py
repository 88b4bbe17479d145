"""A training that unlearns is stopped."""

from __future__ import annotations

from collections import deque
from typing import Any

from lmk_train.modules.faults import BatchFault

WINDOW = 50
"""Steps over which the loss is averaged: single batches differ, most of all between data sets."""


class DivergenceError(BatchFault):
    """The loss rose far above what it had been; the message names the step and its rows."""


class DivergenceCheck:
    """Tells when the mean loss of the last `WINDOW` steps is far above its lowest, and above that of the first ones.

    Both are asked, since a loss near zero multiplies easily without any harm: a training that has lost all it had
    learnt is above where it began.

    Args:
        factor: How far above the lowest mean; ``None`` never finds anything.

    Example:
        >>> check = DivergenceCheck(2.0)
        >>> [check.diverges(loss) for loss in [5.0] * WINDOW + [1.0] * WINDOW + [9.0] * 26].count(True)
        1
    """

    def __init__(self, factor: float | None) -> None:
        self.factor = factor
        self.recent: deque[float] = deque(maxlen=WINDOW)
        self.initial: float | None = None
        self.lowest: float | None = None

    @property
    def mean(self) -> float:
        """That of the last steps."""
        return sum(self.recent) / len(self.recent)

    def diverges(self, loss: float) -> bool:
        """Takes the loss of one more step."""
        self.recent.append(loss)
        if len(self.recent) < WINDOW:
            return False
        if self.initial is None or self.lowest is None:
            self.initial = self.lowest = self.mean
        self.lowest = min(self.lowest, self.mean)
        return self.factor is not None and self.mean > self.factor * self.lowest and self.mean > self.initial

    def state(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {"recent": list(self.recent), "initial": self.initial, "lowest": self.lowest}

    def restore(self, state: dict[str, Any]) -> None:
        self.recent = deque(state["recent"], maxlen=WINDOW)
        self.initial, self.lowest = state["initial"], state["lowest"]
