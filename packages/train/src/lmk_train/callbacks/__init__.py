"""What happens beside a training step: records, checkpoints, validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.callbacks.checkpoint_files import CheckpointNotWrittenError
    from lmk_train.callbacks.checkpoints import CheckpointMismatchError, Checkpoints, find_checkpoint
    from lmk_train.callbacks.preemption import Preemption
    from lmk_train.callbacks.recording import MetricsReporter, ProgressBar
    from lmk_train.callbacks.validation import RetrievalValidation

__all__ = [
    "CheckpointMismatchError",
    "CheckpointNotWrittenError",
    "Checkpoints",
    "MetricsReporter",
    "Preemption",
    "ProgressBar",
    "RetrievalValidation",
    "find_checkpoint",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CheckpointMismatchError": ".checkpoints",
        "CheckpointNotWrittenError": ".checkpoint_files",
        "Checkpoints": ".checkpoints",
        "MetricsReporter": ".recording",
        "Preemption": ".preemption",
        "ProgressBar": ".recording",
        "RetrievalValidation": ".validation",
        "find_checkpoint": ".checkpoints",
    },
)
