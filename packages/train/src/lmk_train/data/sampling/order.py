"""Which rows make which batch, and which of them each process takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from lmk_train.data.sampling.draws import permutation
from lmk_train.data.sampling.mixture import MixedSet, Part

_MIXTURE = 2**32 - 1
"""The key of a mixture's own order: no data set has this number."""


class RowKey(NamedTuple):
    """What a batch is made of, and all that the draws need beside the seed."""

    dataset: int
    """Which data set, from 0."""
    epoch: int
    """Which pass over this data set, from 0."""
    row: int
    """The row's number in its data set."""


class BatchOrder(Sampler[list[RowKey]]):
    """One process's share of batches ``start`` to ``steps`` of an endless sequence that depends on the seed alone.

    Batch ``n`` is a pure function of ``n``: the number of the step is the whole state, and a resumed training goes on
    exactly where it was. The rows of a step do not depend on the number of processes; each takes consecutive ones, as
    many as the others or one more or less. So all take equally many steps.

    Every batch holds rows of one data set. In an epoch of the mixture each row of a data set is seen ``weight`` times;
    where that is not a whole number, after ``e`` epochs each row was seen ``e * weight`` times, rounded down or up.
    With shares, a data set has that part of the epoch's steps instead, an epoch having as many steps as all data sets
    have batches. The data sets take turns in drawn order, each with its own batches one after the other.

    Args:
        sets: The data sets.
        seed: The training's seed.
        steps: Where the sequence ends.
        start: Batches that were already used.
        rank: Which process this is.
        world_size: How many there are.

    Raises:
        ValueError: A batch has fewer rows than there are processes.

    Example:
        >>> order = BatchOrder.of_rows(5, 2, seed=0, steps=4)
        >>> [len(batch) for batch in order], [batch[0].epoch for batch in order]
        ([2, 2, 2, 2], [0, 0, 1, 1])
        >>> list(BatchOrder.of_rows(5, 2, seed=0, steps=4, start=3)) == list(order)[3:]
        True
        >>> both = [BatchOrder.of_rows(5, 2, seed=0, steps=4, rank=rank, world_size=2) for rank in (0, 1)]
        >>> [one + other for one, other in zip(*both)] == list(order)
        True
    """

    def __init__(
        self, sets: Sequence[MixedSet], seed: int, *, steps: int, start: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        for place, one in enumerate(sets):
            if one.smallest < world_size:
                raise ValueError(
                    f"data set {place} has batches of {one.smallest} rows, and there are {world_size} processes, which "
                    "each need one; give more rows, a larger batch or fewer processes"
                )
        self.sets, self.seed = tuple(sets), seed
        self.steps, self.start = steps, start
        self.rank, self.world_size = rank, world_size
        self._rates = _batches_an_epoch(self.sets)
        self._passes: dict[int, tuple[int, list[NDArray[np.int64]]]] = {}
        self._epoch: tuple[int, list[tuple[int, int]]] = (-1, [])

    @classmethod
    def of_rows(cls, rows: int, batch_size: int, seed: int, **keywords: int) -> BatchOrder:
        """The order of one data set of so many rows."""
        return cls([MixedSet([Part(0, rows, batch_size)])], seed, **keywords)

    @property
    def batches_per_epoch(self) -> int:
        """Batches of an epoch, to a batch where weights or shares do not come out even."""
        return max(round(sum(self._rates)), 1)

    def epoch_start(self, epoch: int) -> int:
        """The number of the first batch of an epoch."""
        return sum(floor(epoch * rate) for rate in self._rates)

    def step(self, number: int) -> list[RowKey]:
        """The rows of batch ``number``, from 0, those of all processes."""
        dataset, batch = self._which(number)
        one = self.sets[dataset]
        epoch, place = divmod(batch, one.batches)
        if self._passes.get(dataset, (-1, []))[0] != epoch:
            key = () if len(self.sets) == 1 else (dataset,)
            self._passes[dataset] = (epoch, one.pass_batches(seed=self.seed, number=epoch, key=key))
        return [RowKey(dataset, epoch, int(row)) for row in self._passes[dataset][1][place]]

    def batch(self, number: int) -> list[RowKey]:
        """This process's rows of batch ``number``."""
        rows = self.step(number)
        return rows[share(len(rows), self.rank, self.world_size)]

    def _which(self, number: int) -> tuple[int, int]:
        """The data set of a batch, and the batch's number in it."""
        if len(self.sets) == 1:
            return 0, number
        epoch = self._epoch[0]
        if not (epoch >= 0 and self.epoch_start(epoch) <= number < self.epoch_start(epoch + 1)):
            epoch = self._epoch_of(number)
            self._epoch = (epoch, self._epoch_batches(epoch))
        return self._epoch[1][number - self.epoch_start(epoch)]

    def _epoch_batches(self, epoch: int) -> list[tuple[int, int]]:
        """The data sets in drawn order, each with its batches in their own order: one pass ends before the next."""
        starts = [floor(epoch * rate) for rate in self._rates]
        counts = [floor((epoch + 1) * rate) - start for rate, start in zip(self._rates, starts, strict=True)]
        drawn = np.repeat(np.arange(len(counts)), counts)[permutation(sum(counts), self.seed, epoch, _MIXTURE)]
        batches = []
        for place in drawn.tolist():
            batches.append((place, starts[place]))
            starts[place] += 1
        return batches

    def _epoch_of(self, number: int) -> int:
        epoch = int(number / sum(self._rates))
        while self.epoch_start(epoch) > number:
            epoch -= 1
        while self.epoch_start(epoch + 1) <= number:
            epoch += 1
        return epoch

    def __iter__(self) -> Iterator[list[RowKey]]:
        return (self.batch(number) for number in range(self.start, self.steps))

    def __len__(self) -> int:
        # The whole training's length, not what is left: Lightning counts the batches of earlier runs itself.
        return self.steps


def share(rows: int, rank: int, world_size: int) -> slice:
    """Which of ``rows`` rows a process takes: consecutive ones, the first processes one more where it is uneven.

    Example:
        >>> [list(range(10)[share(10, rank, 4)]) for rank in range(4)]
        [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    """
    whole, more = divmod(rows, world_size)
    start = rank * whole + min(rank, more)
    return slice(start, start + whole + (rank < more))


def _batches_an_epoch(sets: Sequence[MixedSet]) -> list[Fraction]:
    shares = [one.share for one in sets]
    if any(one is None for one in shares):
        return [one.weight * one.batches for one in sets]
    known = [one for one in shares if one is not None]
    all_batches = sum(one.batches for one in sets)
    return [all_batches * one / sum(known) for one in known]
