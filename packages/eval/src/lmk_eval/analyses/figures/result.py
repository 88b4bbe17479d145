"""`Analysis`: what was found, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = str | int | float | bool | None
Row = Mapping[str, Value]
"""A line of a CSV file: column to value."""


NAMES = ("series", "data", "max_length", "find", "granularity")
"""Keys of a summary that say which line it is; all other numbers are what was found."""


def summary_metrics(summary: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The numbers of a summary by flat names, ``<what the line is about>/<key>``.

    >>> summary_metrics([{"series": "cls", "max_length": 512, "mean_position": 0.25, "window": None}])
    {'cls/512/mean_position': 0.25}
    """
    found = {}
    for line in summary:
        named = [str(line[key]) for key in NAMES if line.get(key) is not None]
        for key, value in line.items():
            if key not in NAMES and isinstance(value, int | float) and not isinstance(value, bool):
                found["/".join([*named, key])] = float(value)
    return found


@dataclass(frozen=True)
class Analysis:
    """The result of one analysis."""

    kind: str
    """What was analysed, and the name of its files."""
    tables: Mapping[str, Sequence[Row]]
    """The numbers that are drawn: the table "" goes to ``<kind>.csv``, any other to ``<kind>-<name>.csv``."""
    summary: Sequence[Mapping[str, Any]]
    """The few numbers of each series that are worth a sentence, as plain JSON values."""
    settings: Mapping[str, Any]
    """How it was made, as plain JSON values."""
    draw: Callable[[], Any] = field(repr=False, compare=False)
    """Makes the matplotlib figure."""
