"""What can go wrong in an evaluation."""

from __future__ import annotations


class EvaluationError(ValueError):
    """An evaluation failed. `task` is the name of the task it failed in, or None; the cause is chained."""

    def __init__(self, message: str, task: str | None = None) -> None:
        super().__init__(message)
        self.task = task
