"""`lmk_train.train`, measured."""

# ruff: noqa: ARG002 (methods have a recorder's signatures)
from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from measuring import Meter, settings
from transformers import AutoConfig, AutoTokenizer

from lmk_core import PoolingConfig, PoolingTokenizer
from lmk_train import TrainConfig, train
from lmk_train.callbacks.recording import MetricsReporter
from lmk_train.data.module import ContrastiveData

sys.path.insert(0, str(Path(__file__).parents[1]))
from suite.measuring import layer_shapes, matrix_rate


class Measuring:
    """A recorder that hears of every step."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def event(self, kind: str, **fields: Any) -> None: ...

    def metrics(self, values: dict[str, float], step: int) -> None:
        self.meter.step()
        self.meter.losses.append(values["train/loss"])
        self.meter.padded += 10**9
        self.meter.tokens += round(10**9 * (1 - values["train/padding_share"]))

    def progress(self, done: int, total: int, unit: str) -> None: ...


def begin_with_the_steps(meter: Meter) -> None:
    """Begins where the peers' callback does: the trainer and the loader are made, and no batch is asked for yet.

    The recorder hears nothing then, and its event `start` is earlier.
    """
    started = MetricsReporter.on_train_start

    def and_begin(self: MetricsReporter, *args: Any) -> None:
        meter.begin()
        started(self, *args)

    MetricsReporter.on_train_start = and_begin


def main() -> None:
    wanted = settings()
    torch.set_num_threads(1)
    meter = Meter()
    config = TrainConfig.model_validate(wanted["config"])
    tokenizer = PoolingTokenizer(
        AutoTokenizer.from_pretrained(wanted["model"]), PoolingConfig("mean"), wanted["passage_max_length"]
    )
    begin_with_the_steps(meter)
    started = time.process_time()
    ContrastiveData(config, tokenizer)
    tokenizing = time.process_time() - started
    train(config, Path(wanted["out"]), Measuring(meter))
    rate = matrix_rate(layer_shapes(AutoConfig.from_pretrained(wanted["model"])))
    meter.report(tokenizing=tokenizing, matrix_rate=rate)


if __name__ == "__main__":
    main()
