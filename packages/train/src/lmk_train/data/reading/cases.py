"""Everything that can be wrong or unusual in a training file, and what is done about it: one table, and its counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lmk_train.data.errors import DataError

Result = Literal["stops", "dropped", "kept"]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that can be found, and its result.

    ``stops``: nothing is trained. ``dropped``: the row is faulty and is left out, which a training allows for a share
    of ``data.max_faulty`` of a file's rows. ``kept``: the row is used as ``done`` says. Each is counted under ``name``.
    """

    name: str
    found: str
    result: Result
    done: str


_ALL = (
    Case("no_file", "a path that is not there, or a folder without a file of rows", "stops", "nothing is trained"),
    Case("unknown_ending", "a file of another kind than those that are read", "stops", "nothing is trained"),
    Case("no_rows", "a file without a row that can be used", "stops", "nothing is trained"),
    Case("truncated", "a compressed or parquet file that ends too early, or is damaged", "stops", "nothing is trained"),
    Case("not_utf8", "bytes that are no UTF-8", "dropped", "the row is left out"),
    Case("not_json", "a line that is not JSON", "dropped", "the row is left out"),
    Case("not_an_object", "JSON that is not an object", "dropped", "the row is left out"),
    Case("missing_key", "no `query` or no `pos`, or null there", "dropped", "the row is left out"),
    Case("wrong_type", "`pos` that is one string, texts that are no strings", "dropped", "the row is left out"),
    Case("no_positives", "an empty `pos`", "dropped", "the row is left out"),
    Case("score_count", "more or fewer scores than texts", "dropped", "the row is left out"),
    Case("score_value", "a score that is NaN, infinite (as float32) or no number", "dropped", "the row is left out"),
    Case("without_scores", "a score that is missing or null", "kept", "the row uses InfoNCE"),
    Case("without_negatives", "no hard negatives, or none but positives", "kept", "the other rows' passages alone"),
    Case("few_negatives", "fewer negatives than are drawn", "kept", "all of them, repeated evenly"),
    Case("positives_among_negatives", "a text that is in `neg` and in `pos`", "kept", "left out, with its score"),
    Case("duplicate_negatives", "a text that is twice in `neg`", "kept", "the first one and its score"),
    Case("empty_texts", "a query or passage of white space alone", "kept", "its special tokens are encoded"),
    Case("no_in_batch_neg", "a file or folder named `..._no_in_batch_neg`", "kept", "in-batch negatives all the same"),
    Case("prompts_not_used", "a `prompt`, without data.prompt", "kept", "the query alone"),
)

CASES: dict[str, Case] = {case.name: case for case in _ALL}
"""By name; the README of this distribution shows the same table."""

UNREAD = "key_not_read:"
"""Beginning of the counts of rows that have a key nobody reads, as ``key_not_read:type``."""

SHOWN = 10
"""Faulty rows that an error lists."""


@dataclass
class Findings:
    """What was found in some rows.

    Attributes:
        rows: Rows that can be used.
        scored: Those of them with teacher scores.
        counts: How often each case of :data:`CASES` was found, and each key that is not read.
        faults: The first faulty rows, at most ``keep``; ``None`` keeps all.
    """

    rows: int = 0
    scored: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[DataError] = field(default_factory=list)
    keep: int | None = SHOWN

    @property
    def faulty(self) -> int:
        """Rows that are left out."""
        return sum(self.counts[name] for name, case in CASES.items() if case.result == "dropped")

    def add_fault(self, error: DataError) -> None:
        """Counts a faulty row."""
        assert error.case is not None
        self.counts[error.case] += 1
        if self.keep is None or len(self.faults) < self.keep:
            self.faults.append(error)

    def merge(self, other: Findings) -> None:
        """Adds what was found in other rows."""
        self.rows += other.rows
        self.scored += other.scored
        self.counts.update(other.counts)
        room = None if self.keep is None else max(self.keep - len(self.faults), 0)
        self.faults += other.faults[:room]

    def check(self, path: str | Path, max_faulty: float) -> None:
        """Sees that no more than ``max_faulty`` of a file's rows are faulty.

        Raises:
            DataError: There are more; the message lists the first ones. Or no row can be used.
        """
        total = self.rows + self.faulty
        if self.faulty > max_faulty * total:
            raise self.refusal(max_faulty, total)
        if not self.rows:
            raise DataError(path, None, f"it holds no rows; each needs {ROW_KEYS}", "no_rows")

    def refusal(self, max_faulty: float, total: int | None) -> DataError:
        """The error of too many faulty rows. With ``total`` ``None`` the file was not read to its end."""
        first = self.faults[0]
        if self.faulty == 1 and total is not None and max_faulty == 0:
            return first
        listed = "".join(f"\n  {fault}" for fault in self.faults[1:])
        more = self.faulty - len(self.faults)
        rest = f"\n  and {more:,} more" if more > 0 else ""
        of = "the file was not read any further" if total is None else f"{self.faulty:,} of {total:,} rows are faulty"
        allowed = f"data.max_faulty allows a share of {max_faulty:g}"
        problem = f"{first.problem}{listed}{rest}\n  {of}; {allowed}; `lmk data check` lists them all"
        return DataError(first.path, first.line, problem, first.case)


ROW_KEYS = "'query' (a string), 'pos' (a list of strings, not empty) and 'neg' (a list of strings)"
