"""What happens beside a training step: records, checkpoints, validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.callbacks.checkpoints import CheckpointMismatchError, Checkpoints, find_checkpoint
    from lmk_train.callbacks.recording import MetricsReporter, ProgressBar
    from lmk_train.callbacks.validation import RetrievalValidation

__all__ = [
    "CheckpointMismatchError",
    "Checkpoints",
    "MetricsReporter",
    "ProgressBar",
    "RetrievalValidation",
    "find_checkpoint",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CheckpointMismatchError": ".checkpoints",
        "Checkpoints": ".checkpoints",
        "MetricsReporter": ".recording",
        "ProgressBar": ".recording",
        "RetrievalValidation": ".validation",
        "find_checkpoint": ".checkpoints",
    },
)
