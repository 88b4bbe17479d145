"""What keeps the ranks of a training together beside its steps."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lmk_train.callbacks.validation import validates_after
from lmk_train.config import TrainConfig

if TYPE_CHECKING:
    from lmk_train.ranks.group import Ranks


class MeetAfterValidation(Callback):
    """While the first rank validates, the others wait here: where no limit of a collective's time is."""

    def __init__(self, config: TrainConfig, ranks: Ranks) -> None:
        self.config, self.ranks = config, ranks

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.config.data.validation is not None and validates_after(
            trainer.global_step, trainer.max_steps, self.config.runtime.validate_every
        ):
            self.ranks.meet()


class KeepSignals(Callback):
    """With several ranks, what SIGTERM does stays what it was before Lightning.

    Lightning's own handler runs a collective where the signal happens to arrive, and the ranks then wait for each other
    for ever. Whoever started the ranks ends them.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._before = signal.getsignal(signal.SIGTERM)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.ranks.several:
            signal.signal(signal.SIGTERM, self._before)
