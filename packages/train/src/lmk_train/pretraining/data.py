"""The masked texts of each step, as Lightning asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lmk_core.layouts import PoolingTokenizer, TokenizedTexts
from lmk_core.pooling import draw_granularity
from lmk_train.config import PretrainConfig
from lmk_train.data.cache.building import Report
from lmk_train.data.errors import DataError
from lmk_train.data.loading import StepData
from lmk_train.data.reading import Findings, data_files
from lmk_train.data.sampling import BatchOrder, RowKey
from lmk_train.pretraining.cache import TextCache, TextFile
from lmk_train.pretraining.tokens import WordTokens
from lmk_train.retromae import MaskedText, Masking

_MASKS = 2**32 - 3
"""The key of the masks' draws."""


@dataclass(frozen=True, eq=False)
class TextBatch:
    """One process's share of a step: masked texts of different lengths."""

    texts: tuple[MaskedText, ...]
    rows: Int[Tensor, " rows"]
    """The texts' numbers."""
    dataset: str = "texts"

    @property
    def sizes(self) -> Int[Tensor, " rows"]:
        """Texts beside each text: none, where a fine-tune's row has passages."""
        return torch.zeros(len(self.rows), dtype=torch.long)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[texts] the tokens of each."""
        return np.array([len(text.layout) for text in self.texts], dtype=np.int64)

    def select(self, indices: Sequence[int] | NDArray[np.int64]) -> TextBatch:
        """Some of the texts, in the order given."""
        chosen = [int(index) for index in indices]
        return TextBatch(tuple(self.texts[index] for index in chosen), self.rows[chosen], self.dataset)

    def to(self, device: torch.device | str, **_: Any) -> TextBatch:  # noqa: ARG002
        """Itself: texts reach the device in chunks."""
        return self


class Texts(Dataset[tuple[RowKey, WordTokens]]):
    """All texts of a pre-training, tokenized, file after file."""

    def __init__(self, config: PretrainConfig, cache: TextCache) -> None:
        self.files: list[TextFile] = []
        self.findings = Findings()
        for path in config.data.train:
            for file in data_files(path, plain_text=True):
                texts, found = cache.texts(file)
                self.files.append(texts)
                self.findings.merge(found)
        self._ends = np.cumsum([len(file) for file in self.files])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: RowKey) -> tuple[RowKey, WordTokens]:
        which = int(np.searchsorted(self._ends, index.row, side="right"))
        return index, self.files[which][index.row - (int(self._ends[which - 1]) if which else 0)]


class MaskingCollator:
    """Lays texts out and masks them. Sizes of chunks and masks depend on (seed, pass, row) alone: a resumed training,
    another number of workers or of processes sees the same.

    Raises:
        ValueError: The tokenizer has no MASK, or no token to begin a text with.
    """

    def __init__(self, config: PretrainConfig, tokenizer: PoolingTokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer
        masking = config.masking
        self.masking = Masking.of_tokenizer(tokenizer.hf_tokenizer, encoder=masking.encoder, decoder=masking.decoder)
        if tokenizer.tokens.first is None:
            raise ValueError(
                "the tokenizer has neither a CLS nor a BOS token, in whose place the decoder finds the pooled vector; "
                "set tokenizer.cls_token"
            )

    def __call__(self, examples: Sequence[tuple[RowKey, WordTokens]]) -> TextBatch:
        keys, read = zip(*examples, strict=True)
        pooling, seed = self.config.pooling, self.config.seed
        length = self.config.data.max_length
        texts = TokenizedTexts(
            np.concatenate([one.ids for one in read]), _bounds([len(one) for one in read]), limit=length
        )
        if pooling.granularity == "sentence":
            ends = np.concatenate([one.ends for one in read]).astype(np.int64)
            texts = replace(texts, pieces=ends, piece_bounds=_bounds([len(one.ends) for one in read]))
        sizes = None
        if isinstance(pooling.granularity, tuple):
            sizes = [draw_granularity(pooling.granularity, seed, key.epoch, key.row, 0) for key in keys]
        layouts = self.tokenizer.lay_out(texts, granularity=sizes, max_length=length)
        masked = [
            MaskedText.make(
                layout,
                own.begins,
                self.masking,
                landmarks=pooling.kind == "landmark",
                draw=np.random.RandomState([seed, key.epoch, key.row, _MASKS]),
            )
            for layout, own, key in zip(layouts, read, keys, strict=True)
        ]
        return TextBatch(tuple(masked), torch.tensor([key.row for key in keys]))


def _bounds(lengths: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


class PretrainingData(StepData):
    """One process's share of the batches of a pre-training, from the step at which the trainer stands.

    Args:
        config: The pre-training.
        tokenizer: Makes the layouts.
        rank: Which process this is.
        world_size: How many there are.
        report: Told how far tokenizing is.

    Raises:
        DataError: A file is faulty, all together do not fill a batch, or a batch has fewer rows than processes.
    """

    def __init__(
        self,
        config: PretrainConfig,
        tokenizer: PoolingTokenizer,
        *,
        rank: int = 0,
        world_size: int = 1,
        report: Report | None = None,
    ) -> None:
        super().__init__(config, rank=rank, world_size=world_size)
        self.config = config
        data = config.data
        self.collator = MaskingCollator(config, tokenizer)
        cache = TextCache(tokenizer, data.max_length, folder=data.cache, max_faulty=data.max_faulty, report=report)
        self.texts = Texts(config, cache)
        self.order()  # fails here rather than at the first step

    @property
    def rows(self) -> int:
        """Texts."""
        return len(self.texts)

    def order(self, start: int = 0) -> BatchOrder:
        """The batches of the steps from ``start`` on."""
        optim = self.config.optim
        steps = {"steps": optim.steps, "start": min(start, optim.steps)}
        ranks = {"rank": self.rank, "world_size": self.world_size}
        try:
            return BatchOrder.of_rows(self.rows, optim.batch_size, self.config.seed, **steps, **ranks)
        except ValueError as error:
            raise DataError(self.config.data.train[0], None, str(error)) from None

    def batches(self, start: int = 0, *, workers: int = 0) -> DataLoader[Any]:
        order = self.order(start)
        return DataLoader(self.texts, batch_sampler=order, collate_fn=self.collator, **self.loading(workers))

    def summary(self) -> dict[str, Any]:
        """What is trained on, for a record."""
        findings = self.texts.findings
        return {
            "rows": self.rows,
            "tokens": sum(int(file.bounds[-1]) for file in self.texts.files),
            "dropped_rows": findings.faulty,
            "dropped_first": [str(fault) for fault in findings.faults],
            "found": dict(sorted(findings.counts.items())),
            "steps_per_epoch": self.order().batches_per_epoch,
        }
