"""A table as a grid of texts with spans: what every format writes in its own signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmk_experiments.tables.spec import Column, LabelColumn
from lmk_experiments.tables.table import Comparison, Significance, Table, TableCell, TableRow


@dataclass(frozen=True)
class Span:
    """A text over ``columns`` columns and ``rows`` rows; no rows where a label is merged into the one above."""

    text: str
    columns: int = 1
    rows: int = 1


@dataclass(frozen=True)
class Shown:
    """A cell's texts, each empty where there is nothing to say.

    Attributes:
        value: the number with its deviation, empty where there is none; then ``state`` says why.
        rank: 1 best, 2 second, else 0.
        difference: to the baseline, signed.
        seeds: how many of the seeds the number is of, where not of all.
        published, against: the published value, and ours minus it.
        marked: whether the difference to the baseline is significant.
    """

    value: str
    state: str = ""
    rank: int = 0
    difference: str = ""
    seeds: str = ""
    published: str = ""
    against: str = ""
    marked: bool = False


MARK = "†"
"""Stands after a value that differs significantly from the baseline's."""


@dataclass(frozen=True)
class Layout:
    """The parts of a table that are the same in every format.

    Attributes:
        header: header lines from top to bottom; each covers all columns, the label columns first.
        labels: the label cells of each row; their ``columns`` sum to ``label_count``.
        label_count: label columns, at least one.
    """

    header: tuple[tuple[Span, ...], ...]
    labels: tuple[tuple[Span, ...], ...]
    label_count: int


def lay_out(table: Table) -> Layout:
    """The header lines and labels of ``table``."""
    count = len(table.labels) or 1
    left, right = _label_headers(table.labels), _column_headers(table)
    depth = max(len(left), len(right))
    # Both stand on the bottom of the header, beside the rows that they head.
    left = [[Span("", 1)] * count] * (depth - len(left)) + left
    right = [[Span("", 1)] * len(table.columns)] * (depth - len(right)) + right
    header = tuple((*one, *other) for one, other in zip(left, right, strict=True))
    return Layout(header, _labels(table, count), count)


def _label_headers(labels: Sequence[LabelColumn]) -> list[list[Span]]:
    if not labels:
        return [[Span("")]]
    titles = [Span(label.title) for label in labels]
    if not any(label.group for label in labels):
        return [titles]
    return [_merged([((label.group or ""),) for label in labels], 0), titles]


def _column_headers(table: Table) -> list[list[Span]]:
    columns = table.columns
    depth = max(len(column.groups) for column in columns)
    paths = [("",) * (depth - len(column.groups)) + column.groups for column in columns]
    lines = [_merged(paths, level) for level in range(depth)]
    lines.append([Span(column.title) for column in columns])
    if any(column.detail for column in columns):
        lines.append([Span(column.detail or "") for column in columns])
    if any(column.unit for column in columns):
        lines.append(_units(columns, table.pivot))
    return lines


def _units(columns: Sequence[Column], pivot: int) -> list[Span]:
    """One unit a column; what a pivot made of one column has one unit."""
    return [Span(column.unit or "", pivot) for column in columns[::pivot]]


def _merged(paths: Sequence[tuple[str, ...]], level: int) -> list[Span]:
    """Neighbours with the same texts down to ``level`` under one header; empty ones stay apart."""
    spans: list[Span] = []
    before: tuple[str, ...] | None = None
    for path in paths:
        here = path[: level + 1]
        if here == before and here[-1]:
            spans[-1] = Span(here[-1], spans[-1].columns + 1)
        else:
            spans.append(Span(here[-1]))
        before = here
    return spans


def _labels(table: Table, count: int) -> tuple[tuple[Span, ...], ...]:
    if not table.labels:
        return tuple((Span(row.label),) for row in table.rows)
    lines = [_spread(row.labels, count) for row in table.rows]
    for position in range(len(lines) - 1, 0, -1):
        if not table.rows[position].rule:
            _merge_up(lines[position - 1], lines[position], table.labels)
    return tuple(tuple(line) for line in lines)


def _spread(labels: tuple[str, ...], count: int) -> list[Span]:
    return [*(Span(label) for label in labels[:-1]), Span(labels[-1], count - len(labels) + 1)]


def _merge_up(above: list[Span], here: list[Span], labels: Sequence[LabelColumn]) -> None:
    """Merge labels into equal ones above: from the left, and in each group of label columns anew.

    Rows are visited from the last, so a merged label may have grown already.
    """
    at, merging = 0, True
    for index, (upper, lower) in enumerate(zip(above, here, strict=False)):
        starts_group = at == 0 or labels[at].group != labels[at - 1].group
        # A first column without a group of its own (a model's name) heads the groups: they never merge across it.
        headed = labels[0].group is None and at > 0 and here[0].rows > 0
        merging = upper.text == lower.text and upper.columns == lower.columns and (merging or starts_group)
        if merging and not headed:
            above[index] = Span(upper.text, upper.columns, upper.rows + lower.rows)
            here[index] = Span(lower.text, lower.columns, 0)
        else:
            merging = False
        if upper.columns != lower.columns:
            return
        at += upper.columns


def show(column: Column, cell: TableCell, table: Table) -> Shown:
    """The texts of a cell."""
    number = f"z.{column.digits}f"
    printed = "" if cell.published is None else f"{cell.published:{number}}"
    if cell.value is None:
        return Shown("", cell.state or "no score", published=printed)
    value = f"{cell.value:{number}}"
    if cell.deviation is not None:
        value += f" ± {cell.deviation:.{column.digits}f}"
    return Shown(
        value,
        rank=cell.rank,
        difference=f"{cell.difference:+{number}}" if table.differences and cell.difference is not None else "",
        seeds=f"{cell.seeds} of {cell.planned} seeds" if cell.state else "",
        published=printed,
        against=f"{cell.against:+{number}}" if cell.against is not None else "",
        marked=cell.comparison is not None and cell.comparison.significant,
    )


def shown_rows(table: Table) -> list[tuple[TableRow, list[Shown]]]:
    """Every row with the texts of its cells."""
    return [(row, [show(*pair, table) for pair in zip(table.columns, row.cells, strict=True)]) for row in table.rows]


def legend(table: Table) -> list[str]:
    """Sentences that explain the signs, but for how best and second look, which is each format's own."""
    cells = [cell for row in table.rows for cell in row.cells]
    said = []
    if any(cell.deviation is not None for cell in cells):
        said.append("±: sample standard deviation over seeds.")
    if table.differences and table.within:
        said.append(f"In parentheses: difference to the baseline of the same {table.within}.")
    elif table.differences and len(table.baselines) == 1:
        said.append(f"In parentheses: difference to {table.baselines[0].label}.")
    elif table.differences and len(table.baselines) > 1:
        said.append("The grid has several baselines, so no differences are shown.")
    said += significance(table)
    if any(cell.published is not None for cell in cells):
        said.append("In brackets: the published value, and ours minus it.")
    if {column.scale for column in table.columns if column.suite is not None} == {100.0}:
        said.append("Scores are multiplied by 100.")
    return said


def significance(table: Table) -> list[str]:
    """Sentences about the tests: what the mark says, how it was found, and what could not be tested."""
    tests = table.significance
    if tests is None:
        return []
    said = []
    compared = [one for row in table.rows for cell in row.cells if (one := cell.comparison) is not None]
    if compared:
        said += _tests(table, tests, compared)
    elif not tests.baselines:
        said.append("No row is the baseline, so no difference is tested.")
    if tests.untested:
        more = len(tests.untested) - UNTESTED_SHOWN
        shown = "; ".join([*tests.untested[:UNTESTED_SHOWN], *([f"and {more} more"] if more > 0 else [])])
        said.append(f"Not tested: {shown}.")
    return said


UNTESTED_SHOWN = 8
"""Reasons that are written under a table; JSON has all of them."""


def _tests(table: Table, tests: Significance, compared: Sequence[Comparison]) -> list[str]:
    several = f"the baseline of the same {table.within}" if table.within else ", ".join(dict.fromkeys(tests.baselines))
    drawn = max(one.resamples for one in compared)
    how = f"{drawn:,} random sign changes" if drawn else "every sign change"
    if drawn and not all(one.resamples for one in compared):
        how += ", or every one where few queries differ"
    found = f"{MARK}: differs" if any(one.significant for one in compared) else "Nothing differs"
    said = [
        f"{found} from {several} at p < {tests.level:g}: two-sided paired randomization test over queries "
        f"({_range([one.queries for one in compared])} a value; {how}), stratified by task where a value is a mean of "
        f"several{_corrected([one.comparisons for one in compared])}.",
    ]
    if any(cell.seeds > 1 for row in table.rows for cell in row.cells):
        said.append(
            "A query's score is its mean over a row's seeds: the test speaks of other queries, ± of other seeds."
        )
    return said


def _corrected(comparisons: Sequence[int]) -> str:
    """For one comparison there is nothing to correct."""
    return "" if max(comparisons) == 1 else f", Holm-corrected for the {_range(comparisons)} comparisons of a column"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def ranked(table: Table) -> str:
    """What best and second are counted within, or an empty text where nothing is ranked."""
    if not any(cell.rank for row in table.rows for cell in row.cells):
        return ""
    score = "score" if table.pivot > 1 else "column"
    return f"of its {score} and {table.within}" if table.within else f"of its {score}"


def origin(table: Table) -> str:
    """Where the numbers come from."""
    text = f"Grid {table.grid}; numbers from {table.source}."
    return f"{text} Published numbers from {table.published}." if table.published else text
