"""Pre-training and contrastive fine-tuning of embedding models with any pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.recording import PrintRecorder
    from lmk_train.callbacks.checkpoints import CheckpointMismatchError
    from lmk_train.config import PretrainConfig, TrainConfig
    from lmk_train.data.errors import DataError
    from lmk_train.finished import OtherModelError
    from lmk_train.modules.divergence import DivergenceError
    from lmk_train.modules.finite import NonFiniteError
    from lmk_train.training import pretrain, train

__all__ = [
    "CheckpointMismatchError",
    "DataError",
    "DivergenceError",
    "NonFiniteError",
    "OtherModelError",
    "PretrainConfig",
    "PrintRecorder",
    "TrainConfig",
    "pretrain",
    "train",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CheckpointMismatchError": ".callbacks.checkpoints",
        "DataError": ".data.errors",
        "DivergenceError": ".modules.divergence",
        "NonFiniteError": ".modules.finite",
        "OtherModelError": ".finished",
        "PretrainConfig": ".config",
        "PrintRecorder": "lmk_core.recording",
        "TrainConfig": ".config",
        "pretrain": ".training",
        "train": ".training",
    },
)
