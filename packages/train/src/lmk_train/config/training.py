"""The whole configuration of one training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt, field_validator

from lmk_core.pooling import PoolingConfig
from lmk_train.config.base import TRANSIENT, Section
from lmk_train.config.data import DataConfig
from lmk_train.config.sections import (
    LossConfig,
    ModelConfig,
    OptimConfig,
    PoolingField,
    RuntimeConfig,
    check_trainable,
)


class TrainConfig(Section):
    """Everything that makes one training.

    Example:
        >>> config = TrainConfig.model_validate(
        ...     {
        ...         "model": {"path": "models/tiny"},
        ...         "pooling": {"kind": "landmark", "granularity": 32},
        ...         "data": {"train": ["rows.jsonl"]},
        ...         "optim": {"steps": 100, "batch_size": 32, "learning_rate": "2e-5"},
        ...     }
        ... )
        >>> config.optim.learning_rate, config.data.negatives
        (2e-05, 7)
        >>> config.model_dump(mode="json")["pooling"]
        {'kind': 'landmark', 'granularity': 32}
    """

    model: ModelConfig
    """The encoder that is fine-tuned."""

    pooling: PoolingField
    """How an encoder's tokens become one vector."""

    data: DataConfig
    """The rows that are trained on."""

    optim: OptimConfig
    """The optimizer and its schedule."""

    loss: LossConfig = LossConfig()
    """The objective."""

    init: str | None = Field(default=None, min_length=1, json_schema_extra={"identity_absent": None, "place": True})
    """The pre-training that comes first: its preset's name in a grid, `pretraining:ID` in a cell, and for `train()` the
    folder that `pretrain()` has filled, from which the weights are taken; null starts from `model` itself."""

    precision: Literal["fp32", "bf16"] = "fp32"
    """`bf16` computes the encoder in bfloat16 over float32 weights; the loss is float32 in both."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Decides new weights, the order of rows, the draws of negatives and granularities, and dropout."""

    recipe_version: PositiveInt = 1
    """Raised when a correction of the code changes what a configuration trains."""

    runtime: RuntimeConfig = Field(default=RuntimeConfig(), json_schema_extra=TRANSIENT)
    """Where and how it runs; never part of the identity."""

    @field_validator("pooling")
    @classmethod
    def _can_be_trained(cls, pooling: PoolingConfig) -> PoolingConfig:
        return check_trainable(pooling)
