"""Data sets as a mixture takes them: which of their rows make which of their batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lmk_train.data.sampling.draws import permutation


@dataclass(frozen=True)
class Part:
    """Rows ``start`` to ``stop`` of a data set, and how many of them make a batch: those of one length, or all."""

    start: int
    stop: int
    batch_size: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


class MixedSet:
    """The batches of one data set, pass after pass, each a pure function of its number.

    A pass is a permutation of each part's rows, cut into batches of that part; with several parts their batches are
    shuffled.

    Args:
        parts: The data set's rows. All together are the data set.
        spread: Every row of a pass is in a batch, and the batches of a part differ by one row at most. Otherwise all
            batches are full, and what is left over waits for the next pass.
        weight: How often each row is seen in an epoch of the mixture.
        share: The data set's part of the steps instead, relative to the other data sets' shares.

    Raises:
        ValueError: A part can't fill a batch, and is not to be spread.

    Example:
        >>> rows = MixedSet([Part(0, 101, 8)], spread=True)
        >>> sorted(len(batch) for batch in rows.pass_batches(seed=0, number=0, key=()))
        [7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]
    """

    def __init__(
        self, parts: Sequence[Part], *, spread: bool = False, weight: float = 1, share: float | None = None
    ) -> None:
        self.parts = merge_small(parts) if spread else tuple(parts)
        self.spread = spread
        self.weight = Fraction(str(weight))
        self.share = None if share is None else Fraction(str(share))
        for part in self.parts:
            if not spread and part.rows < part.batch_size:
                raise ValueError(
                    f"{part.rows} rows can't fill a batch of {part.batch_size}; give more rows or a smaller batch"
                )

    @cached_property
    def rows(self) -> int:
        """Rows of the data set."""
        return sum(part.rows for part in self.parts)

    @cached_property
    def batches(self) -> int:
        """Batches of a pass."""
        return sum(self._count(part) for part in self.parts)

    @cached_property
    def smallest(self) -> int:
        """Rows of the smallest batch."""
        return min(part.rows // self._count(part) if self.spread else part.batch_size for part in self.parts)

    def pass_batches(self, *, seed: int, number: int, key: tuple[int, ...]) -> list[NDArray[np.int64]]:
        """The rows of each batch of pass ``number``. ``key`` keeps data sets apart."""
        batches: list[NDArray[np.int64]] = []
        for place, part in enumerate(self.parts):
            # The first of several has the key that a part alone would have.
            order = part.start + permutation(part.rows, seed, number, *key, *([place] if place else []))
            count = self._count(part)
            if self.spread:
                batches += np.array_split(order, count)
            else:
                batches += np.split(order[: count * part.batch_size], count)
        if len(self.parts) == 1:
            return batches
        return [batches[place] for place in permutation(len(batches), seed, number, *key, len(self.parts))]

    def _count(self, part: Part) -> int:
        return -(-part.rows // part.batch_size) if self.spread else part.rows // part.batch_size


def merge_small(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts that follow on each other, none with less than a batch of its own if that can be: a part that has less
    joins its neighbour (the longer texts', where there are such), and the smaller batch of both is right for both.

    Example:
        >>> merge_small([Part(0, 100, 8), Part(100, 103, 4), Part(103, 110, 2)])
        (Part(start=0, stop=100, batch_size=8), Part(start=100, stop=110, batch_size=2))
        >>> merge_small([Part(0, 3, 8)])
        (Part(start=0, stop=3, batch_size=8),)
    """
    merged: list[Part] = []
    for part in parts:
        before = merged[-1] if merged else None
        if before is not None and before.rows < before.batch_size:
            merged[-1] = _joined(before, part)
        elif part.rows:
            merged.append(part)
    if len(merged) > 1 and merged[-1].rows < merged[-1].batch_size:
        last = merged.pop()
        merged[-1] = _joined(merged[-1], last)
    return tuple(merged)


def _joined(one: Part, other: Part) -> Part:
    return Part(one.start, other.stop, min(one.batch_size, other.batch_size))
