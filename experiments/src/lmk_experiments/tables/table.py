"""A table as values, before it is written in any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmk_experiments.tables.spec import Column, LabelColumn


@dataclass(frozen=True)
class Comparison:
    """A value against the baseline's, query by query.

    Attributes:
        p: two-sided p-value of the paired randomization test, this comparison alone.
        queries: how many were compared.
        resamples: assignments drawn for ``p``; 0 where all of them were looked at.
        interval: 95% bootstrap interval of the difference, in the column's units, where it was asked for.
        adjusted: the p-value after Holm's correction for the column's ``comparisons``.
        significant: whether ``adjusted`` is below the level.
    """

    p: float
    queries: int
    resamples: int
    interval: tuple[float, float] | None = None
    adjusted: float = 1.0
    significant: bool = False
    comparisons: int = 1


@dataclass(frozen=True)
class Significance:
    """What is said of a table's tests.

    Attributes:
        level: the chance of any false mark in a column.
        baselines: what was compared with.
        untested: why cells with a value were not tested, a line for each reason.
    """

    level: float
    baselines: tuple[str, ...]
    untested: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableCell:
    """One value of a table, or the reason why there is none.

    Attributes:
        value: mean over the seeds, in the column's units; ``None`` where no seed has a score.
        deviation: sample standard deviation over the seeds, where there are several.
        seeds, planned: seeds with a score, and seeds of the row.
        state: what the missing seeds are doing; empty where none is missing.
        rank: 1 for the best of the column, 2 for the second, else 0.
        difference: to the baseline row; ``None`` in that row and where either has no value.
        published: what was published for this cell, in the column's units; ``None`` where nothing was or none is shown.
        comparison: with the baseline; ``None`` in that row, where nothing was tested, and where that cannot be done.
        interval: 95% bootstrap interval of the value over queries; ``None`` where it is not known
            or was not asked for.
    """

    value: float | None
    deviation: float | None = None
    seeds: int = 0
    planned: int = 0
    state: str = ""
    rank: int = 0
    difference: float | None = None
    published: float | None = None
    comparison: Comparison | None = None
    interval: tuple[float, float] | None = None

    @property
    def against(self) -> float | None:
        """The value minus the published one, where both are there."""
        return None if self.value is None or self.published is None else self.value - self.published


@dataclass(frozen=True)
class TableRow:
    """One row.

    Attributes:
        name: the grid's; of a line of a pivoted table the names of its rows, joined by commas.
        label: what is shown of the name.
        labels: what stands in the label columns, where the table has such; the last of fewer spans the rest.
        rule: whether a line is drawn above the row.
    """

    name: str
    label: str
    baseline: bool
    cells: tuple[TableCell, ...]
    labels: tuple[str, ...] = ()
    rule: bool = False


@dataclass(frozen=True)
class Table:
    """A grid's results.

    Attributes:
        grid: the grid's name.
        columns: as specified; ``rows[i].cells[j]`` belongs to ``columns[j]``.
        differences: whether differences to the baseline are to be shown.
        source: where the numbers come from.
        labels: the columns on the left; empty for one column with the rows' names.
        pivot: how many columns each specified column became; 1 without a pivot.
        within: what the rows are compared within, such as ``Model``; empty where all are compared.
        published: where the published values beside ours come from; empty where none are shown.
        significance: how the comparisons were made; ``None`` where none were asked for.
    """

    grid: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    differences: bool
    notes: tuple[str, ...]
    source: str
    labels: tuple[LabelColumn, ...] = ()
    pivot: int = 1
    within: str = ""
    published: str = ""
    significance: Significance | None = None

    @property
    def baselines(self) -> list[TableRow]:
        """The rows that the grid marks as its baseline."""
        return [row for row in self.rows if row.baseline]


def disagreements(one: Table, other: Table) -> list[str]:
    """Where two tables of a grid differ: a line for each cell, empty where they agree in every bit."""
    found: list[str] = []
    if [column.name for column in one.columns] != [column.name for column in other.columns]:
        found.append("the columns differ")
    if [row.name for row in one.rows] != [row.name for row in other.rows]:
        found.append("the rows differ")
    if found:
        return found
    return [
        f"{row.name}, {column.name}: {_shown(mine)} from {one.source}, {_shown(theirs)} from {other.source}"
        for row, twin in zip(one.rows, other.rows, strict=True)
        for column, mine, theirs in zip(one.columns, row.cells, twin.cells, strict=True)
        if mine != theirs
    ]


def ranks(values: Sequence[float | None], column: Column) -> list[int]:
    """1 for the best and 2 for the second best of a column, 0 for the others; what looks equal shares a rank.

    A column with fewer than two values has no best.

    >>> ranks([61.24, 61.16, None, 60.0, 61.2], Column(title="t", suite="s"))
    [1, 1, 0, 2, 1]
    """
    # Values are compared as they are printed: two equal numbers of which one is bold would puzzle the reader.
    shown = [None if value is None else float(f"{value:.{column.digits}f}") for value in values]
    if column.best == "none" or sum(value is not None for value in shown) < 2:
        return [0] * len(values)
    order = sorted({value for value in shown if value is not None}, reverse=column.best == "max")
    places = {value: place for place, value in enumerate(order[:2], start=1)}
    return [0 if value is None else places.get(value, 0) for value in shown]


def _shown(cell: TableCell) -> str:
    return repr(cell.value) if cell.value is not None else cell.state
