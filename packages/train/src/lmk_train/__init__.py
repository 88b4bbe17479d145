"""Contrastive fine-tuning of embedding models with any pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.callbacks.checkpoints import CheckpointMismatchError
    from lmk_train.config import TrainConfig
    from lmk_train.data.errors import DataError
    from lmk_train.modules.divergence import DivergenceError
    from lmk_train.modules.finite import NonFiniteError
    from lmk_train.training import train

__all__ = ["CheckpointMismatchError", "DataError", "DivergenceError", "NonFiniteError", "TrainConfig", "train"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CheckpointMismatchError": ".callbacks.checkpoints",
        "DataError": ".data.errors",
        "DivergenceError": ".modules.divergence",
        "NonFiniteError": ".modules.finite",
        "TrainConfig": ".config",
        "train": ".training",
    },
)
