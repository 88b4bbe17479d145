"""Tells a meter of the steps of a trainer of transformers. Each peer's own environment imports it."""

from __future__ import annotations

from typing import Any

from measuring import Meter
from transformers import TrainerCallback


class Ends(TrainerCallback):
    """Begins a meter with the training, and ends its steps with those of the trainer."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.meter.begin()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.meter.step()
