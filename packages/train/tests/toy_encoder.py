"""An encoder small enough to be written down, and ragged texts for it."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from lmk_train.loss import Targets


class ToyTexts:
    """Ragged ids, as `lmk_core.layouts.Layouts` has them."""

    def __init__(self, ids: list[list[int]]) -> None:
        self.ids = ids

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(ids) for ids in self.ids])

    def select(self, indices) -> ToyTexts:
        return ToyTexts([self.ids[int(index)] for index in indices])


class ToyEncoder(nn.Module):
    """Ids to unit vectors: a mean of embeddings between two layers, with dropout; in the type of its weights."""

    def __init__(self, *, dropout: float = 0.0, dim: int = 8, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(50, dim, dtype=dtype)
        self.layer = nn.Linear(dim, dim, dtype=dtype)
        self.out = nn.Linear(dim, dim, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.calls: list[tuple[int, bool]] = []
        """Of each call the texts, and whether it had a graph."""

    def forward(self, texts: ToyTexts) -> torch.Tensor:
        self.calls.append((len(texts.ids), torch.is_grad_enabled()))
        width = max(len(ids) for ids in texts.ids)
        ids = torch.tensor([one + [0] * (width - len(one)) for one in texts.ids])
        real = torch.tensor([[1.0] * len(one) + [0.0] * (width - len(one)) for one in texts.ids])[..., None]
        hidden = self.dropout(torch.tanh(self.layer(self.embedding(ids)))) * real.to(self.out.weight.dtype)
        return nn.functional.normalize(self.out(hidden.sum(1) / real.sum(1)).to(self.out.weight.dtype), dim=-1)


def toy_rows(sizes: list[int], *, seed: int = 0) -> tuple[list[list[int]], list[list[list[int]]]]:
    """A query for each size, and that many passages for each."""
    draw = np.random.RandomState(seed)

    def text() -> list[int]:
        return draw.randint(1, 50, draw.randint(1, 12)).tolist()

    return [text() for _ in sizes], [[text() for _ in range(size)] for size in sizes]


def toy_batch(queries, passages, *, scored: list[bool] | None = None, seed: int = 0) -> tuple[ToyTexts, Targets]:
    """The texts, queries first, and what belongs to what; ``scored`` says which rows a teacher has scored."""
    sizes = torch.tensor([len(group) for group in passages])
    flat = [text for group in passages for text in group]
    teacher = None
    if scored is not None and any(scored):
        # A row's scores depend on its texts, so that a share of a batch has those of the whole.
        teacher = torch.zeros(len(sizes), int(sizes.max()), dtype=torch.float64)
        for row, group in enumerate(passages):
            teacher[row, : len(group)] = torch.tensor([float(sum(text) % 7) for text in group])
    return ToyTexts([*queries, *flat]), Targets(
        sizes=sizes,
        teacher=teacher,
        scored=torch.tensor(scored or [False] * len(sizes)),
        query_keys=torch.tensor([hash(tuple(text)) for text in queries]),
        passage_keys=torch.tensor([hash(tuple(text)) for text in flat]),
    )
