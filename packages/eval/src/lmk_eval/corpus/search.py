"""Exact search: the nearest documents of every query, with the corpus read once and the scores never all in memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

_SCORES = 1 << 24
"""Scores that are in memory at a time: 64 MB."""
BLOCK_ROWS = 16_384
"""Documents that are in memory at a time."""


def top_k(
    queries: Float[Tensor, "queries dim"], blocks: Iterator[tuple[int, Float[Tensor, "_ dim"]]], k: int
) -> tuple[Float[Tensor, "queries found"], Int[Tensor, "queries found"]]:
    """Each query's ``k`` documents of the highest inner product, the highest first: scores and rows.

    The memory is bounded by the queries and ``k``, whatever the corpus: a running list a query, merged with each block.

    Args:
        queries: on the device that is to compute.
        blocks: the number of the first row, and the vectors, as `Shards.blocks` gives them.
        k: documents a query; all of them where the corpus has fewer.
    """
    best = queries.new_zeros((len(queries), 0))
    rows = torch.zeros((len(queries), 0), dtype=torch.int64, device=queries.device)
    for first, vectors in blocks:
        vectors = vectors.to(queries.device)
        step = max(_SCORES // max(len(vectors), 1), 1)
        parts = [
            _merge(best[start : start + step], rows[start : start + step], some @ vectors.T, first, k)
            for start, some in ((start, queries[start : start + step]) for start in range(0, len(queries), step))
        ]
        if parts:
            best = torch.cat([scores for scores, _ in parts])
            rows = torch.cat([found for _, found in parts])
    return best, rows


def _merge(best: Tensor, rows: Tensor, scores: Tensor, first: int, k: int) -> tuple[Tensor, Tensor]:
    """The best of those so far and of the scores [queries, documents] of a block that begins at row ``first``."""
    found, places = scores.topk(min(k, scores.shape[1]), dim=1)
    joined, joined_rows = torch.cat([best, found], dim=1), torch.cat([rows, places + first], dim=1)
    kept, order = joined.topk(min(k, joined.shape[1]), dim=1)
    return kept, joined_rows.gather(1, order)
