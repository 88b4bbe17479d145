"""Tokens and seconds of the same texts, read with and without landmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from lmk_core import Embedder
from lmk_core.pooling import PoolingConfig

PLAIN = PoolingConfig("cls")
"""CLS text SEP: what landmarks are compared with."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of all texts in one reading."""

    total: int
    """Special tokens and landmarks included."""
    landmarks: int
    text: int
    """Tokens of the texts themselves, as far as they fit."""


def count_layouts(embedder: Embedder, texts: Sequence[str], max_length: int) -> Tokens:
    """Lay the texts out as the embedder reads them, and count."""
    layouts = embedder.tokenizer.layouts(texts, max_length=max_length)
    total = int(layouts.lengths.sum())
    head = 0 if embedder.tokenizer.tokens.first is None else 1
    if embedder.pooling.kind == "landmark":
        landmarks = len(layouts.pooled)
        return Tokens(total, landmarks, total - landmarks - head * len(layouts))
    return Tokens(total, 0, total - (head + 1) * len(layouts))


@dataclass(frozen=True)
class Seconds:
    """How long encoding took, over several rounds."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the rounds."""
        return median(self.rounds)


def measure_seconds(
    readings: Sequence[Embedder], texts: Sequence[str], max_length: int, rounds: int, done: Callable[[int], None]
) -> list[Seconds]:
    """Encode the texts with every reading, round by round.

    One round more comes first and does not count. Readings take turns inside a round, each time from another one, so
    that a machine that slows down does so for all of them.
    """
    taken: list[list[float]] = [[] for _ in readings]
    for number in range(rounds + 1):
        for step in range(len(readings)):
            which = (step + number) % len(readings)
            start = time.perf_counter()
            vectors = readings[which].encode(texts, max_length=max_length)  # float32 on the CPU: it has waited
            seconds = time.perf_counter() - start
            assert np.isfinite(vectors).all()
            if number:
                taken[which].append(seconds)
            done(number * len(readings) + step + 1)
    return [Seconds(tuple(values)) for values in taken]
