"""What a file of rows holds: lengths, scores, repetitions, and every fault."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from lmk_train.data.errors import DataError
from lmk_train.data.reading.cases import Findings
from lmk_train.data.reading.files import Progress, length_bucket, wants_no_in_batch
from lmk_train.data.reading.rows import Row, read_rows

Lengths = Callable[[Sequence[str]], Sequence[int]]
"""Tokens of each text."""

QUANTILES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)

_GROUP = 256
"""Rows whose texts are tokenized at once."""


@dataclass
class Scores:
    """The range and the mean of some scores."""

    count: int = 0
    least: float = 0.0
    most: float = 0.0
    total: float = 0.0

    def add(self, score: float) -> None:
        self.least = min(self.least, score) if self.count else score
        self.most = max(self.most, score) if self.count else score
        self.count += 1
        self.total += score

    def summary(self) -> dict[str, float] | None:
        """``None`` where there is no score."""
        return {"min": self.least, "mean": self.total / self.count, "max": self.most} if self.count else None


@dataclass
class Survey:
    """One file, read to its end.

    Memory grows with the number of rows (a hash of each) and of different lengths, not with the texts.
    """

    path: Path
    findings: Findings = field(default_factory=lambda: Findings(keep=None))
    stopped: DataError | None = None
    """Why reading stopped before the file's end."""
    characters: dict[str, Counter[int]] = field(default_factory=lambda: _counters())
    tokens: dict[str, Counter[int]] = field(default_factory=lambda: _counters())
    negatives: Counter[int] = field(default_factory=Counter)
    positive_scores: Scores = field(default_factory=Scores)
    negative_scores: Scores = field(default_factory=Scores)
    repeated_rows: int = 0
    """Rows whose query and first positive another row had before."""
    repeated_positives: int = 0
    """Other rows whose first positive another row had before: in one batch they are each other's false negatives."""

    @property
    def faults(self) -> list[DataError]:
        """Every fault, in the file's order."""
        return [*self.findings.faults, *([self.stopped] if self.stopped else [])]

    def summary(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "file": str(self.path),
            "bucket": length_bucket(self.path),
            "rows": self.findings.rows,
            "rows_with_scores": self.findings.scored,
            "faulty": self.findings.faulty,
            "counts": dict(sorted(self.findings.counts.items())),
            "negatives_a_row": quantiles(self.negatives),
            "characters": {name: quantiles(counts) for name, counts in self.characters.items()},
            "tokens": {name: quantiles(counts) for name, counts in self.tokens.items() if counts} or None,
            "positive_scores": self.positive_scores.summary(),
            "negative_scores": self.negative_scores.summary(),
            "repeated_rows": self.repeated_rows,
            "repeated_positives": self.repeated_positives,
            "faults": [{"line": one.line, "case": one.case, "problem": one.problem} for one in self.faults],
        }


def survey(path: Path, *, lengths: Lengths | None = None, progress: Progress | None = None) -> Survey:
    """Reads one file to its end, or as far as it can be read.

    Args:
        path: The file.
        lengths: Counts the tokens of texts; without it there are characters alone.
        progress: Told how far reading is.
    """
    found = Survey(path)
    found.findings.counts.update({"no_in_batch_neg": 1} if wants_no_in_batch(path) else {})
    seen_rows: set[bytes] = set()
    seen_positives: set[bytes] = set()
    rows = (row for _, row in read_rows(path, found.findings, progress=progress))
    try:
        while group := list(islice(rows, _GROUP)):
            for row in group:
                _add(found, row)
                _add_repetition(found, row, seen_rows, seen_positives)
            if lengths is not None:
                _add_tokens(found, group, lengths)
    except DataError as error:
        found.stopped = error
    if not found.findings.rows and not found.faults:
        try:
            found.findings.check(path, 0.0)
        except DataError as error:
            found.stopped = error
    return found


def quantiles(counts: Counter[int]) -> dict[str, float] | None:
    """Of whole numbers that are counted: the least, some quantiles, the most, and the mean.

    Example:
        >>> quantiles(Counter({1: 9, 11: 1}))
        {'min': 1, 'p10': 1, 'p50': 1, 'p90': 1, 'p99': 11, 'max': 11, 'mean': 2.0}
    """
    total = sum(counts.values())
    if not total:
        return None
    names = ["min", *(f"p{round(100 * share)}" for share in QUANTILES[1:-1]), "max"]
    values: dict[str, float] = {}
    below, ordered = 0, iter(sorted(counts.items()))
    value = 0
    for name, share in zip(names, QUANTILES, strict=True):
        while below < max(share * total, 1):
            value, count = next(ordered)
            below += count
        values[name] = value
    values["mean"] = sum(value * count for value, count in counts.items()) / total
    return values


def _counters() -> dict[str, Counter[int]]:
    return {"query": Counter(), "positive": Counter(), "negative": Counter()}


def _texts(row: Row) -> dict[str, Sequence[str]]:
    return {"query": (row.query,), "positive": row.positives, "negative": row.negatives}


def _add(found: Survey, row: Row) -> None:
    for name, texts in _texts(row).items():
        found.characters[name].update(map(len, texts))
    found.negatives[len(row.negatives)] += 1
    for score in row.positive_scores or ():
        found.positive_scores.add(score)
    for score in row.negative_scores or ():
        found.negative_scores.add(score)


def _add_repetition(found: Survey, row: Row, rows: set[bytes], positives: set[bytes]) -> None:
    both = _hash(f"{row.query}\0{row.positives[0]}")
    positive = _hash(row.positives[0])
    if both in rows:
        found.repeated_rows += 1
    elif positive in positives:
        found.repeated_positives += 1
    rows.add(both)
    positives.add(positive)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()


def _add_tokens(found: Survey, group: list[Row], lengths: Lengths) -> None:
    for name in found.tokens:
        found.tokens[name].update(lengths([text for row in group for text in _texts(row)[name]]))
