"""The data of a training, as Lightning asks for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.utils.data import DataLoader

from lmk_core.layouts import PoolingTokenizer
from lmk_train.config import TrainConfig
from lmk_train.data.cache import TokenCache
from lmk_train.data.cache.building import Report
from lmk_train.data.collate import Collator
from lmk_train.data.errors import DataError
from lmk_train.data.examples import ExampleDataset, open_sets, set_names
from lmk_train.data.loading import StepData
from lmk_train.data.reading import Findings
from lmk_train.data.sampling import BatchOrder
from lmk_train.data.streaming import StreamedBatches


class ContrastiveData(StepData):
    """One process's share of the training batches of a configuration, from the step at which the trainer stands.

    The step's rows are the same for any number of processes.

    Args:
        config: The training.
        tokenizer: Makes the layouts.
        rank: Which process this is.
        world_size: How many there are.
        report: Told how far tokenizing is, where texts are tokenized for the first time.

    Raises:
        DataError: A file of ``config.data.train`` is faulty, a data set can't fill a batch, or a batch has fewer rows
            than there are processes.
    """

    def __init__(
        self,
        config: TrainConfig,
        tokenizer: PoolingTokenizer,
        *,
        rank: int = 0,
        world_size: int = 1,
        report: Report | None = None,
    ) -> None:
        super().__init__(config, rank=rank, world_size=world_size)
        self.config = config
        data = config.data
        self.collator = Collator(
            tokenizer,
            config.pooling,
            seed=config.seed,
            query_max_length=data.query_max_length,
            passage_max_length=data.passage_max_length,
        )
        self.dataset: ExampleDataset | None = None
        if data.stream_buffer is None:
            cache = TokenCache(
                tokenizer,
                max(data.query_max_length, data.passage_max_length),
                folder=data.cache,
                prompt=data.prompt,
                max_faulty=data.max_faulty,
                report=report,
            )
            self.dataset = ExampleDataset(open_sets(data, cache, batch_size=config.optim.batch_size), config.seed)
            self.mixed = [one.mixed(spread=data.spreads) for one in self.dataset.sets]
        self.order()  # fails here rather than at the first step

    @property
    def rows(self) -> int:
        """Rows that are trained on; 0 where they are streamed and nobody counted them."""
        return 0 if self.dataset is None else len(self.dataset)

    def order(self, start: int = 0) -> BatchOrder | None:
        """The batches of the steps from ``start`` on; ``None`` where rows are streamed."""
        if self.dataset is None:
            return None
        optim = self.config.optim
        try:
            return BatchOrder(
                self.mixed,
                self.config.seed,
                steps=optim.steps,
                start=min(start, optim.steps),
                rank=self.rank,
                world_size=self.world_size,
            )
        except ValueError as error:
            smallest = min(zip(self.mixed, self.dataset.sets, strict=True), key=lambda one: one[0].smallest)[1]
            raise DataError(smallest.entry.paths[0], None, str(error)) from None

    def batches(self, start: int = 0, *, workers: int = 0) -> DataLoader[Any]:
        if self.dataset is None:
            streamed = StreamedBatches(
                self.config, self.collator, start=start, rank=self.rank, world_size=self.world_size
            )
            return DataLoader(streamed, batch_size=None, **self.loading(workers))
        order = self.order(start)
        return DataLoader(self.dataset, batch_sampler=order, collate_fn=self.collator, **self.loading(workers))

    def summary(self) -> dict[str, Any]:
        """What is trained on, for a record: counts of rows and of every case that was found in them."""
        if self.dataset is None:
            return {"streamed": True, "datasets": {name: {} for name in set_names(self.config.data.sets)}}
        order = self.order()
        assert order is not None
        findings = Findings()
        for one in self.dataset.sets:
            findings.merge(one.findings)
        counts = Counter(findings.counts)
        return {
            "rows": self.rows,
            "rows_with_scores": findings.scored,
            "rows_without_negatives": counts.pop("without_negatives", 0),
            "dropped_positives_among_negatives": counts.pop("positives_among_negatives", 0),
            "dropped_rows": findings.faulty,
            "dropped_first": [str(fault) for fault in findings.faults],
            "found": dict(sorted(counts.items())),
            "datasets": {
                one.name: {"rows": len(one), "batches": mixed.batches}
                for one, mixed in zip(self.dataset.sets, self.mixed, strict=True)
            },
            "steps_per_epoch": order.batches_per_epoch,
        }
