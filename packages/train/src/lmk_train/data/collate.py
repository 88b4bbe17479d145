"""Examples to the tensors of one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.batch import PooledBatch
from lmk_core.pooling import PoolingConfig, draw_granularity
from lmk_train.data.draws import Example


class Batch(TypedDict):
    """One step's tensors. Passages come in groups, one a query in the queries' order, each with the positive first."""

    queries: PooledBatch
    """``input_ids``, ``attention_mask`` and ``pooling_mask``, each ``[queries, tokens]``."""
    passages: PooledBatch
    """The same, each ``[passages, tokens]``."""
    sizes: Int[Tensor, " queries"]
    """The passages of each query: 1 + negatives, or 1 where its row has no negatives."""
    teacher: Float[Tensor, "queries group"] | None
    """The teacher's scores in the largest group's width, 0 where there is none; ``None`` when no query has any."""
    scored: Bool[Tensor, " queries"]
    """Which queries have scores."""
    tokens: int
    """Tokens in the batch, padding left out."""


class Collator:
    """Tokenizes examples and pads them; a variable granularity is drawn here, one size for every text.

    A text's size depends on (seed, epoch, row, slot) alone, slot 0 being the query and ``1 + i`` passage ``i``: a
    second forward, a resumed training or another number of workers sees the same tokens.

    Args:
        tokenizer: Makes the layouts.
        pooling: The pooling the layouts are made for.
        seed: The training's seed.
        query_max_length: Tokens of a query.
        passage_max_length: Tokens of a passage.
    """

    def __init__(
        self,
        tokenizer: PoolingTokenizer,
        pooling: PoolingConfig,
        *,
        seed: int,
        query_max_length: int,
        passage_max_length: int,
    ) -> None:
        self.tokenizer, self.pooling, self.seed = tokenizer, pooling, seed
        self.query_max_length, self.passage_max_length = query_max_length, passage_max_length

    def __call__(self, examples: Sequence[Example]) -> Batch:
        keys = [(example.epoch, example.row, 0) for example in examples]
        queries = self._tokenize([example.query for example in examples], keys, self.query_max_length)
        keys = [(example.epoch, example.row, 1 + i) for example in examples for i in range(len(example.passages))]
        texts = [text for example in examples for text in example.passages]
        passages = self._tokenize(texts, keys, self.passage_max_length)
        sizes = torch.tensor([len(example.passages) for example in examples])
        teacher, scored = _teacher(examples)
        tokens = int(queries["attention_mask"].sum() + passages["attention_mask"].sum())
        return Batch(queries=queries, passages=passages, sizes=sizes, teacher=teacher, scored=scored, tokens=tokens)

    def granularities(self, keys: Sequence[tuple[int, int, int]]) -> list[int] | None:
        """The chunk size of each text, from its (epoch, row, slot); ``None`` when the pooling has one size or none."""
        if not self.pooling.is_variable:
            return None
        choices = self.pooling.granularity
        assert isinstance(choices, tuple)
        return [draw_granularity(choices, self.seed, *key) for key in keys]

    def _tokenize(self, texts: list[str], keys: list[tuple[int, int, int]], max_length: int) -> PooledBatch:
        sizes = self.granularities(keys)
        return self.tokenizer(texts, granularity=sizes, max_length=max_length)


def _teacher(
    examples: Sequence[Example],
) -> tuple[Float[Tensor, "queries group"] | None, Bool[Tensor, " queries"]]:
    scored = torch.tensor([example.scores is not None for example in examples])
    if not scored.any():
        return None, scored
    width = max(len(example.passages) for example in examples)
    padded = [(*(example.scores or ()), *[0.0] * width)[:width] for example in examples]
    return torch.tensor(padded, dtype=torch.float32), scored
