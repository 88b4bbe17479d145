"""What is drawn by chance, each as a pure function of integers: no worker, process or restart changes it."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

import numpy as np

from lmk_train.data.rows import Row


@dataclass(frozen=True, slots=True)
class Example:
    """A row as one step sees it: its query and its passages, the positive first.

    There are ``1 + negatives`` passages, or the positive alone where the row has no negatives.
    """

    epoch: int
    row: int
    query: str
    passages: tuple[str, ...]
    scores: tuple[float, ...] | None


def draw_example(row: Row, *, seed: int, epoch: int, index: int, negatives: int) -> Example:
    """Takes the first positive and draws ``negatives`` negatives without replacement; scores stay with their texts.

    A row with fewer negatives than asked gives all of them, shuffled and then repeated in that order; a row with none
    gives its positive alone.

    Args:
        row: The row to draw from.
        seed: The training's seed.
        epoch: Which pass over the rows this is, from 0.
        index: The row's place among all rows.
        negatives: How many to draw.

    Example:
        >>> row = Row("q", ("p",), ("a", "b", "c"), (9.0,), (1.0, 2.0, 3.0))
        >>> example = draw_example(row, seed=0, epoch=0, index=0, negatives=2)
        >>> len(set(example.passages)), example.passages[0], example.scores[0]
        (3, 'p', 9.0)
    """
    order = shuffled(len(row.negatives), seed, epoch, index)
    chosen = [order[i % len(order)] for i in range(negatives)] if order else []
    scores = None
    if row.positive_scores is not None and row.negative_scores is not None:
        scores = (row.positive_scores[0], *(row.negative_scores[i] for i in chosen))
    return Example(epoch, index, row.query, (row.positives[0], *(row.negatives[i] for i in chosen)), scores)


def shuffled(count: int, *key: int) -> list[int]:
    """A permutation of ``range(count)`` that depends on ``key`` alone.

    ``random.Random.random`` keeps its numbers across Python versions, ``shuffle`` and ``sample`` need not.
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    numbers = random.Random(int.from_bytes(digest, "big"))  # noqa: S311 (draws, not secrets)
    ranks = [numbers.random() for _ in range(count)]
    return sorted(range(count), key=ranks.__getitem__)


def permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order of all rows in an epoch: int64 ``[count]``. ``RandomState`` is frozen across numpy versions."""
    return np.random.RandomState([seed, epoch]).permutation(count)
