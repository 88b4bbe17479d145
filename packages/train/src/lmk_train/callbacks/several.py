"""What keeps the ranks of a training together beside its steps."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lmk_train.callbacks.validation import validates_after
from lmk_train.config import TrainConfig


class MeetAfterValidation(Callback):
    """While the first rank validates, the others wait here: where no limit of a collective's time is."""

    def __init__(self, config: TrainConfig, meet: Callable[[], None]) -> None:
        self.config, self.meet = config, meet

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.config.data.validation is not None and validates_after(
            trainer.global_step, trainer.max_steps, self.config.runtime.validate_every
        ):
            self.meet()
