"""Rows of JSON-lines files: checked once when opened, then read from disk one at a time."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from lmk_train.data.errors import DataError

_KEYS = "'query' (a string), 'pos' (a list of strings, not empty) and 'neg' (a list of strings)"


@dataclass(frozen=True, slots=True)
class Row:
    """A query with its positives and hard negatives.

    ``positive_scores`` and ``negative_scores`` are a teacher's scores, as long as the texts they belong to;
    both are ``None`` when any score of the row is missing. ``dropped`` says how many texts of the file's `neg` are not
    among the negatives, because the row has them as positives too.
    """

    query: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]
    positive_scores: tuple[float, ...] | None = None
    negative_scores: tuple[float, ...] | None = None
    dropped: int = 0

    @property
    def has_scores(self) -> bool:
        return self.positive_scores is not None


class RowFile:
    """The rows of one JSON-lines file. Every line is checked here; only the lines' offsets stay in memory.

    Args:
        path: The file. Blank lines are skipped.

    Raises:
        DataError: The file is missing, empty or not JSON lines, or a row of it is faulty.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.scored = 0
        """How many rows have teacher scores."""
        self.without_negatives = 0
        """How many rows have no negatives of their own."""
        self.dropped_positives = 0
        """How many texts of `neg` are left out, because they are positives of the same row."""
        if not self.path.is_file():
            what = "is a folder" if self.path.is_dir() else "does not exist"
            raise DataError(path, None, f"{what}; a JSON-lines file is expected")
        if self.path.suffix not in {".jsonl", ".json"}:
            raise DataError(path, None, f"its name ends in {self.path.suffix!r}; valid endings: .jsonl, .json")
        offsets, lines, start = [], [], 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    row = parse_row(line, self.path, number)
                    offsets.append((start, len(line)))
                    lines.append(number)
                    self.scored += row.has_scores
                    self.without_negatives += not row.negatives
                    self.dropped_positives += row.dropped
                start += len(line)
        if not offsets:
            raise DataError(path, None, f"it holds no rows; each line needs {_KEYS}")
        self._offsets = np.asarray(offsets, dtype=np.int64)
        self._lines = np.asarray(lines, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Row:
        start, size = self._offsets[index]
        # Opened anew each time: a handle shared by forked workers would share its position too.
        with self.path.open("rb") as file:
            file.seek(start)
            return parse_row(file.read(size), self.path, int(self._lines[index]))


class Rows:
    """The rows of several files, one file after the other.

    Raises:
        DataError: See :class:`RowFile`.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.files = [RowFile(path) for path in paths]
        self._ends = list(accumulate(len(file) for file in self.files))

    @property
    def scored(self) -> int:
        """How many rows have teacher scores."""
        return sum(file.scored for file in self.files)

    @property
    def without_negatives(self) -> int:
        """How many rows have no negatives of their own."""
        return sum(file.without_negatives for file in self.files)

    @property
    def dropped_positives(self) -> int:
        """How many texts of `neg` are left out, because they are positives of the same row."""
        return sum(file.dropped_positives for file in self.files)

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Row:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        which = bisect_right(self._ends, index)
        return self.files[which][index - (self._ends[which - 1] if which else 0)]

    def __iter__(self) -> Iterator[Row]:
        return (self[index] for index in range(len(self)))


def parse_row(line: bytes | str, path: str | Path, number: int) -> Row:
    """Reads one line. A text of `neg` that is one of `pos` too, letter by letter, is left out with its score.

    Raises:
        DataError: Naming ``path``, ``number``, the key, what was found and what is valid.

    Example:
        >>> row = parse_row('{"query": "a", "pos": ["b"], "neg": ["c", "b"], "pos_scores": null}', "rows.jsonl", 1)
        >>> row.positives, row.negatives, row.positive_scores, row.dropped
        (('b',), ('c',), None, 1)
    """
    try:
        data = json.loads(line)
    except ValueError as error:  # also bytes that are not UTF-8
        raise DataError(path, number, f"not JSON ({error}); each line is one JSON object") from None
    if not isinstance(data, dict):
        raise DataError(path, number, f"found {_short(data)}; each line is a JSON object with {_KEYS}")
    for key in ("query", "pos"):
        if key not in data:
            found = ", ".join(repr(name) for name in data) or "none"
            raise DataError(path, number, f"the key {key!r} is missing (found: {found}); a row has {_KEYS}")
    if not isinstance(data["query"], str):
        raise DataError(path, number, f"'query' must be a string, found {_short(data['query'])}")
    positives = _texts(data, "pos", path, number)
    if not positives:
        raise DataError(path, number, "'pos' is empty; at least one positive is needed")
    negatives = _texts(data, "neg", path, number)
    positive_scores = _scores(data, "pos_scores", "pos", len(positives), path, number)
    negative_scores = _scores(data, "neg_scores", "neg", len(negatives), path, number)
    if not negatives and negative_scores is None:
        negative_scores = ()
    if positive_scores is None or negative_scores is None:
        positive_scores = negative_scores = None
    kept = [i for i, text in enumerate(negatives) if text not in positives]
    return Row(
        data["query"],
        positives,
        tuple(negatives[i] for i in kept),
        positive_scores,
        None if negative_scores is None else tuple(negative_scores[i] for i in kept),
        dropped=len(negatives) - len(kept),
    )


def _texts(data: dict[str, Any], key: str, path: str | Path, number: int) -> tuple[str, ...]:
    value = data.get(key)
    if value is None and key == "neg":
        return ()
    if not isinstance(value, list):
        example = f"; write [{_short(value)}]" if isinstance(value, str) else ""
        raise DataError(path, number, f"{key!r} must be a list of strings, found {_short(value)}{example}")
    for text in value:
        if not isinstance(text, str):
            raise DataError(path, number, f"{key!r} must hold strings only, found {_short(text)}")
    return tuple(value)


def _scores(
    data: dict[str, Any], key: str, texts: str, expected: int, path: str | Path, number: int
) -> tuple[float, ...] | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, list):
        raise DataError(path, number, f"{key!r} must be a list of numbers or null, found {_short(value)}")
    if len(value) != expected:
        raise DataError(
            path,
            number,
            f"{key!r} has {len(value)} scores for {expected} texts in {texts!r}; they must be equally many",
        )
    missing = False
    for score in value:
        if score is None:
            missing = True
        elif isinstance(score, bool) or not isinstance(score, int | float) or not _is_finite(score):
            raise DataError(path, number, f"{key!r} must hold finite numbers or null, found {_short(score)}")
    return None if missing else tuple(float(score) for score in value)


def _is_finite(score: float) -> bool:
    try:
        return math.isfinite(score)
    except OverflowError:  # JSON has integers of any size, floats end at 1.8e308
        return False


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
