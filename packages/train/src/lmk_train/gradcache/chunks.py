"""Which texts are encoded together."""

from __future__ import annotations

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
    """Tokens of all chunks, padding included."""
    tokens: int
    """Tokens of all chunks, padding left out."""
    largest: int
    """Tokens of the largest chunk, padding included."""
    longest: int
    """Tokens of the longest text: no chunk can be smaller."""


def plan_chunks(lengths: NDArray[np.int64], max_tokens: int) -> Chunks:
    """Cuts texts into chunks of at most ``max_tokens`` tokens each, padding included.

    Sorting puts texts of like lengths together, so that little is padded. A text that is longer than ``max_tokens`` is
    a chunk of its own. The longest come first: memory that does not suffice is noticed at once.

    Args:
        lengths: Tokens of each text, at least one text.
        max_tokens: The largest chunk.

    Example:
        >>> chunks = plan_chunks(np.array([3, 9, 4, 4, 2]), max_tokens=9)
        >>> [chunk.tolist() for chunk in chunks.indices], chunks.tokens, chunks.padded
        ([[1], [2, 3], [0, 4]], 22, 23)
    """
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    starts, start = [], 0
    while start < len(order):
        starts.append(start)
        start += max(1, max_tokens // max(1, int(ordered[start])))
    indices = tuple(np.split(order, starts[1:]))
    sizes = [len(chunk) * int(lengths[chunk[0]]) for chunk in indices]
    return Chunks(indices, sum(sizes), int(lengths.sum()), max(sizes), int(ordered[0]))
