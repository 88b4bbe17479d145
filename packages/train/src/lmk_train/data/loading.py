"""What every training asks of its data: the batches from the step at which the trainer stands."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from lmk_train.config import AnyConfig
from lmk_train.ranks.signals import SIGNALS


class StepData(LightningDataModule, ABC):
    """One process's share of the batches of a training, from the step at which the trainer stands.

    Args:
        config: The training.
        rank: Which process this is.
        world_size: How many there are.
    """

    def __init__(self, config: AnyConfig, *, rank: int = 0, world_size: int = 1) -> None:
        super().__init__()
        self.rank, self.world_size = rank, world_size
        self.seed, self.workers = config.seed, config.runtime.num_workers
        self.began_at = 0
        """The step at which the trainer's batches begin."""

    @abstractmethod
    def batches(self, start: int = 0, *, workers: int = 0) -> DataLoader[Any]:
        """This process's batches of the steps from ``start`` on."""

    def loading(self, workers: int) -> dict[str, Any]:
        """What all loaders of batches are given."""
        return {
            "num_workers": workers,
            # Its own: an iterator draws a base seed, which must not move the generator that dropout uses.
            "generator": torch.Generator().manual_seed(self.seed),
            "worker_init_fn": leave_signals,
        }

    def train_dataloader(self) -> DataLoader[Any]:
        assert self.trainer is not None
        self.began_at = self.trainer.global_step
        on_gpu = self.trainer.strategy.root_device.type == "cuda"
        return self.batches(self.began_at, workers=int(on_gpu) if self.workers is None else self.workers)


def leave_signals(_worker: int) -> None:
    """A scheduler signals every process of a job: a worker that died of it would fail the step that is to be saved.

    Workers end when they are told, or when the process that has started them is gone.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
