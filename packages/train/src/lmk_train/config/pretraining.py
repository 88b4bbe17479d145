"""The whole configuration of one pre-training, which makes the encoder that a fine-tune may start from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt, field_validator

from lmk_core.pooling import PoolingConfig
from lmk_train.config.base import CONTENT, TRANSIENT, Section
from lmk_train.config.data import want_a_list
from lmk_train.config.sections import (
    ModelConfig,
    OptimConfig,
    PoolingField,
    RuntimeConfig,
    check_trainable,
)
from lmk_train.config.training import TrainConfig


class PretrainDataConfig(Section):
    """The texts that are pre-trained on."""

    train: tuple[str, ...] = Field(min_length=1, json_schema_extra=CONTENT)
    """Files and folders of texts: JSON lines (also compressed) and parquet, of whose rows the key `text` is read, and
    plain text (`.txt`), of which longer ones are consecutive texts that each fit `max_length`: nothing is left out."""

    max_length: int = Field(default=512, ge=2)
    """Tokens of a text, special tokens included."""

    max_faulty: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=TRANSIENT)
    """The share of a file's rows that may be faulty: these are dropped and counted. With more, nothing is trained."""

    cache: str | None = Field(default=None, json_schema_extra=TRANSIENT)
    """Folder of tokenized texts, shared by all pre-trainings; null is `$LMK_CACHE`, or `~/.cache/lmk`."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of ``train``."""
        return self.train

    @field_validator("train", mode="before")
    @classmethod
    def _want_a_list(cls, value: Any) -> Any:
        return want_a_list(value)


class MaskingConfig(Section):
    """How much of a text each side of RetroMAE does not see."""

    encoder: float = Field(default=0.3, gt=0, lt=1)
    """Share of the encoder's tokens that are masked."""

    decoder: float = Field(default=0.5, gt=0, lt=1)
    """Share of the tokens that the decoder does not see."""


class PretrainConfig(Section):
    """Everything that makes one pre-training: the encoder's own loss and the reconstruction from its pooled vector."""

    method: Literal["retromae"]
    """What is learnt; `retromae` reconstructs the text from the pooled vector (section 6.3)."""

    model: ModelConfig
    """The encoder that is pre-trained."""

    pooling: PoolingField
    """How its tokens become the vector that the decoder reads."""

    data: PretrainDataConfig
    """The texts."""

    optim: OptimConfig
    """The optimizer and its schedule; `batch_size` counts texts."""

    masking: MaskingConfig = MaskingConfig()
    """What is masked."""

    precision: Literal["fp32", "bf16"] = "fp32"
    """As of a fine-tune."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Decides new weights, the order of rows, masks, the draws of granularities, and dropout."""

    recipe_version: PositiveInt = 1
    """Raised when a correction of the code changes what a configuration pre-trains."""

    runtime: RuntimeConfig = Field(default=RuntimeConfig(), json_schema_extra=TRANSIENT)
    """Where and how it runs; never part of the identity."""

    @field_validator("pooling")
    @classmethod
    def _can_be_trained(cls, pooling: PoolingConfig) -> PoolingConfig:
        return check_trainable(pooling)


AnyConfig = TrainConfig | PretrainConfig
"""Whatever can be trained."""
