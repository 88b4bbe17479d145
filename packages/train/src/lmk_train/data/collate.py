"""Examples to the batch of one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lmk_core.layouts import Layouts, PoolingTokenizer, TokenizedTexts
from lmk_core.pooling import PoolingConfig, draw_granularity
from lmk_train.data.examples import Example


@dataclass(frozen=True, eq=False)
class Batch:
    """One process's share of a step: texts of different lengths, one behind the other, nothing padded.

    Passages come in groups, one a query in the queries' order, each with the positive first.
    """

    queries: Layouts
    """[queries] their layouts."""
    passages: Layouts
    """[passages] the layouts of group 0, group 1, ..."""
    sizes: Int[Tensor, " queries"]
    """The passages of each query: 1 + negatives, or 1 where its row has no negatives."""
    teacher: Float[Tensor, "queries group"] | None
    """The teacher's scores in the largest group's width, 0 where there is none; ``None`` when no query has any."""
    scored: Bool[Tensor, " queries"]
    """Which queries have scores."""
    rows: Int[Tensor, " queries"]
    """The rows' numbers in their data set."""
    dataset: str
    """Which data set they are from: all from one."""
    query_keys: Int[Tensor, " queries"]
    """Hashes of the queries: equal texts have equal ones."""
    passage_keys: Int[Tensor, " passages"]
    """Hashes of the passages."""
    tokens: int
    """Tokens in the batch."""

    def to(self, device: torch.device | str) -> Batch:
        """The batch with its tensors there. Layouts stay: they reach the device in chunks, padded or packed."""
        fields = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **fields)


class Collator:
    """Lays examples out; a variable granularity is drawn here, one size for every text.

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
        sizes = [len(example.texts) - 1 for example in examples]
        texts = TokenizedTexts.concatenate(example.texts for example in examples)
        first = np.cumsum([0, *(size + 1 for size in sizes)])[:-1]
        is_passage = np.ones(len(texts), dtype=bool)
        is_passage[first] = False
        slots = [(*example.key, slot) for example in examples for slot in range(len(example.texts))]
        queries = self._lay_out(texts, first, slots, self.query_max_length)
        passages = self._lay_out(texts, np.flatnonzero(is_passage), slots, self.passage_max_length)
        keys = torch.from_numpy(np.concatenate([example.text_keys for example in examples]).view(np.int64))
        teacher, scored = _teacher(examples)
        return Batch(
            queries=queries,
            passages=passages,
            sizes=torch.tensor(sizes),
            teacher=teacher,
            scored=scored,
            rows=torch.tensor([example.row for example in examples]),
            dataset=examples[0].dataset,
            query_keys=keys[torch.from_numpy(first)],
            passage_keys=keys[torch.from_numpy(is_passage)],
            tokens=int(queries.lengths.sum() + passages.lengths.sum()),
        )

    def granularities(self, slots: Sequence[tuple[int, int, int]]) -> list[int] | None:
        """The chunk size of each text, from its (epoch, row, slot); ``None`` when the pooling has one size or none."""
        if not self.pooling.is_variable:
            return None
        choices = self.pooling.granularity
        assert isinstance(choices, tuple)
        return [draw_granularity(choices, self.seed, *slot) for slot in slots]

    def _lay_out(
        self, texts: TokenizedTexts, chosen: np.ndarray, slots: list[tuple[int, int, int]], max_length: int
    ) -> Layouts:
        sizes = self.granularities([slots[place] for place in chosen])
        return self.tokenizer.lay_out(texts.select(chosen), granularity=sizes, max_length=max_length)


def _teacher(
    examples: Sequence[Example],
) -> tuple[Float[Tensor, "queries group"] | None, Bool[Tensor, " queries"]]:
    scored = torch.tensor([example.scores is not None for example in examples])
    if not scored.any():
        return None, scored
    width = max(len(example.texts) - 1 for example in examples)
    padded = [(*(example.scores or ()), *[0.0] * width)[:width] for example in examples]
    return torch.tensor(padded, dtype=torch.float32), scored
