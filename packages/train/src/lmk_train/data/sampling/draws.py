"""What is drawn by chance, each as a pure function of integers: no worker, process or restart changes it."""

from __future__ import annotations

import hashlib
import random

import numpy as np
from numpy.typing import NDArray


def draw_negatives(available: int, *, seed: int, epoch: int, row: int, negatives: int) -> list[int]:
    """Which of a row's ``available`` negatives are used: places in their list, without replacement.

    A row with fewer negatives than asked gives all of them, shuffled and then repeated in that order; a row with none
    gives none.

    Args:
        available: How many there are.
        seed: The training's seed.
        epoch: Which pass over the row's data set this is, from 0.
        row: The row's own number; see :func:`row_key`.
        negatives: How many to draw.

    Example:
        >>> sorted(draw_negatives(3, seed=0, epoch=0, row=0, negatives=3))
        [0, 1, 2]
        >>> drawn = draw_negatives(2, seed=0, epoch=0, row=0, negatives=5)
        >>> drawn[:2] == drawn[2:4], drawn[4] == drawn[0], draw_negatives(0, seed=0, epoch=0, row=0, negatives=5)
        (True, True, [])
    """
    order = shuffled(available, seed, epoch, row)
    return [order[i % len(order)] for i in range(negatives)] if order else []


def row_key(dataset: int, row: int) -> int:
    """The number that stands for a row in draws: its own, and in another data set than the first one none of theirs."""
    return (dataset << 48) + row


def shuffled(count: int, *key: int) -> list[int]:
    """A permutation of ``range(count)`` that depends on ``key`` alone.

    ``random.Random.random`` keeps its numbers across Python versions, ``shuffle`` and ``sample`` need not.
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    numbers = random.Random(int.from_bytes(digest, "big"))  # noqa: S311 (draws, not secrets)
    ranks = [numbers.random() for _ in range(count)]
    return sorted(range(count), key=ranks.__getitem__)


def permutation(count: int, seed: int, epoch: int, *key: int) -> NDArray[np.int64]:
    """The order of all rows in an epoch: int64 ``[count]``. ``RandomState`` is frozen across numpy versions."""
    return np.random.RandomState([seed, epoch, *key]).permutation(count)
