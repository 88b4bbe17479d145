"""Where the chunks of many texts end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmk_core.texts.ragged import Ints, ranges, row_sums, to_bounds


@dataclass(frozen=True)
class Chunks:
    """Where the chunks of many texts end. Every text has at least one: an empty one's ends at 0."""

    ends: Ints
    """[all chunks] in tokens of its own text, ascending inside a text."""
    bounds: Ints
    """[texts + 1] where each text's chunks begin and end in ``ends``."""

    def starts(self) -> Ints:
        """[all chunks] where each begins, in tokens of its own text."""
        starts = np.zeros_like(self.ends)
        starts[1:] = self.ends[:-1]
        starts[self.bounds[:-1]] = 0
        return starts


def chunk_parts(lengths: Ints, part_bounds: Ints, sizes: Ints | None) -> Chunks:
    """Cut parts of texts into chunks; no chunk reaches over the end of its part.

    Args:
        lengths: [parts] the tokens of each part. A part may be empty, and has no chunk then.
        part_bounds: [texts + 1] where each text's parts begin and end; every text has at least one.
        sizes: [texts] tokens of a chunk, whose last one may be partial; None makes each part one chunk.
    """
    part_counts = np.diff(part_bounds)
    part_sizes = np.maximum(lengths, 1) if sizes is None else np.repeat(sizes, part_counts)
    counts = -(-lengths // part_sizes)
    starts = to_bounds(lengths)[:-1]
    starts = starts - np.repeat(starts[part_bounds[:-1]], part_counts)
    counts[part_bounds[:-1][row_sums(counts, part_bounds) == 0]] = 1
    number = ranges(np.ones_like(counts), counts)
    ends = np.minimum(number * np.repeat(part_sizes, counts), np.repeat(lengths, counts))
    return Chunks(ends + np.repeat(starts, counts), to_bounds(row_sums(counts, part_bounds)))
