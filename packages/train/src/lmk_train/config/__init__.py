"""What one training is: :class:`TrainConfig` and its sections. Imports neither torch nor lightning."""

from __future__ import annotations

from lmk_train.config.base import CONTENT, TRANSIENT, Section
from lmk_train.config.sections import (
    DataConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    PoolingField,
    RuntimeConfig,
)
from lmk_train.config.training import TrainConfig

__all__ = [
    "CONTENT",
    "TRANSIENT",
    "DataConfig",
    "LossConfig",
    "ModelConfig",
    "OptimConfig",
    "PoolingField",
    "RuntimeConfig",
    "Section",
    "TrainConfig",
]
