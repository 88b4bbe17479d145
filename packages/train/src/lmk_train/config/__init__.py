"""What one training is: :class:`TrainConfig`, :class:`PretrainConfig`, their sections. No torch, no lightning."""

from __future__ import annotations

from lmk_train.config.base import CONTENT, TRANSIENT, Section
from lmk_train.config.data import DataConfig, TrainSet
from lmk_train.config.pretraining import AnyConfig, MaskingConfig, PretrainConfig, PretrainDataConfig
from lmk_train.config.sections import (
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
    "AnyConfig",
    "DataConfig",
    "LossConfig",
    "MaskingConfig",
    "ModelConfig",
    "OptimConfig",
    "PoolingField",
    "PretrainConfig",
    "PretrainDataConfig",
    "RuntimeConfig",
    "Section",
    "TrainConfig",
    "TrainSet",
]
