"""`Analysis`: what was found, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = str | int | float | bool | None
Row = Mapping[str, Value]
"""A line of a CSV file: column to value."""


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
