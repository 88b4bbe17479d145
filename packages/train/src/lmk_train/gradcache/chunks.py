"""Which texts are encoded together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Chunks:
    """Texts by length, the longest first, cut where a chunk would have too many tokens."""

    indices: tuple[Indices, ...]
    """The texts of each chunk; the first of a chunk is its longest."""
    padded: int
    """Tokens of all chunks, with the padding that goes through the encoder; without any where they are packed."""
    tokens: int
    """Tokens of all chunks, padding left out."""
    largest: int
    """Tokens of the largest chunk, counted as ``padded`` is."""
    longest: int
    """Tokens of the longest text: no chunk can be smaller."""


def plan_chunks(lengths: NDArray[np.int64], max_tokens: int, *, packed: bool = False) -> Chunks:
    """Cuts texts into chunks of at most ``max_tokens`` tokens each, padding included where there is any.

    Sorting puts texts of like lengths together: padded, little is padded; packed, those of one length make one call of
    the attention on a CPU (see `lmk_core.encoders.packed.groups`), and a GPU does not mind. A text that is longer than
    ``max_tokens`` is a chunk of its own. The longest come first: memory that does not suffice is noticed at once.

    Args:
        lengths: Tokens of each text, at least one text.
        max_tokens: The largest chunk.
        packed: Whether texts stand one behind the other, so that a chunk has their tokens and no padding.

    Example:
        >>> chunks = plan_chunks(np.array([3, 9, 4, 4, 2]), max_tokens=9)
        >>> [chunk.tolist() for chunk in chunks.indices], chunks.tokens, chunks.padded
        ([[1], [2, 3], [0, 4]], 22, 23)
        >>> chunks = plan_chunks(np.array([3, 9, 4, 4, 2]), max_tokens=9, packed=True)
        >>> [chunk.tolist() for chunk in chunks.indices], chunks.tokens, chunks.padded
        ([[1], [2, 3], [0, 4]], 22, 22)
    """
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    starts = list(_packed_starts(ordered, max_tokens) if packed else _padded_starts(ordered, max_tokens))
    indices = tuple(np.split(order, starts[1:]))
    sizes = [int(lengths[chunk].sum()) if packed else len(chunk) * int(lengths[chunk[0]]) for chunk in indices]
    return Chunks(indices, sum(sizes), int(lengths.sum()), max(sizes), int(ordered[0]))


def _padded_starts(ordered: NDArray[np.int64], max_tokens: int) -> Iterator[int]:
    start = 0
    while start < len(ordered):
        yield start
        start += max(1, max_tokens // max(1, int(ordered[start])))


def _packed_starts(ordered: NDArray[np.int64], max_tokens: int) -> Iterator[int]:
    ends, start, before = np.cumsum(ordered), 0, 0
    while start < len(ordered):
        yield start
        start = max(start + 1, int(np.searchsorted(ends, before + max_tokens, side="right")))
        before = int(ends[start - 1])
