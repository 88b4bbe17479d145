"""The data of a training, as Lightning asks for it."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from lmk_core.layouts import PoolingTokenizer
from lmk_train.config import TrainConfig
from lmk_train.data.batches import BatchOrder, ExampleDataset
from lmk_train.data.collate import Collator


class ContrastiveData(LightningDataModule):
    """The training batches of a configuration, from the step at which the trainer stands.

    Args:
        config: The training.
        tokenizer: Makes the layouts.

    Raises:
        DataError: A file of ``config.data.train`` is faulty, or all together can't fill a batch.
    """

    def __init__(self, config: TrainConfig, tokenizer: PoolingTokenizer) -> None:
        super().__init__()
        self.config = config
        self.dataset = ExampleDataset(
            config.data.train,
            negatives=config.data.negatives,
            seed=config.seed,
            batch_size=config.optim.batch_size,
        )
        self.collator = Collator(
            tokenizer,
            config.pooling,
            seed=config.seed,
            query_max_length=config.data.query_max_length,
            passage_max_length=config.data.passage_max_length,
        )

    def order(self, start: int = 0) -> BatchOrder:
        """The batches of the steps from ``start`` on."""
        optim = self.config.optim
        return BatchOrder(
            len(self.dataset), optim.batch_size, self.config.seed, steps=optim.steps, start=min(start, optim.steps)
        )

    def train_dataloader(self) -> DataLoader[Any]:
        assert self.trainer is not None
        workers = self.config.runtime.num_workers
        return DataLoader(
            self.dataset,
            batch_sampler=self.order(start=self.trainer.global_step),
            collate_fn=self.collator,
            num_workers=workers,
            pin_memory=self.trainer.strategy.root_device.type == "cuda",
            # Its own generator: an iterator draws a base seed, which must not move the one that dropout uses.
            generator=torch.Generator().manual_seed(self.config.seed),
        )
