"""From filled rows to the printed table: best and second, differences, and one label turned into columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmk_experiments.tables.spec import Column, TableSpec, TableSpecError
from lmk_experiments.tables.table import Table, TableCell, TableRow, ranks


def compared(spec: TableSpec, rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """The rows with ranks, and with differences where one row is the baseline; each block of `within` for itself."""
    done: dict[int, TableRow] = {}
    for positions in blocks(spec, rows):
        done.update(zip(positions, _compared(spec, [rows[position] for position in positions]), strict=True))
    return tuple(done[position] for position in range(len(rows)))


def blocks(spec: TableSpec, rows: Sequence[TableRow]) -> list[list[int]]:
    """The places of the rows that are compared with each other: all of them, or those of each value of `within`."""
    found: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        found.setdefault(_block(spec, row), []).append(position)
    return list(found.values())


def _block(spec: TableSpec, row: TableRow) -> str:
    if spec.within is None:
        return ""
    return row.labels[min(spec.label_index(spec.within), len(row.labels) - 1)]


def _compared(spec: TableSpec, rows: list[TableRow]) -> list[TableRow]:
    baselines = [row for row in rows if row.baseline]
    base = baselines[0].cells if len(baselines) == 1 else None
    columns = [ranks([row.cells[j].value for row in rows], column) for j, column in enumerate(spec.columns)]
    return [
        replace(
            row,
            cells=tuple(
                replace(
                    cell,
                    rank=columns[j][i],
                    difference=None if base is None or row.baseline else _difference(cell.value, base[j].value),
                )
                for j, cell in enumerate(row.cells)
            ),
        )
        for i, row in enumerate(rows)
    ]


def _difference(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base


def pivoted(table: Table, spec: TableSpec) -> Table:
    """The table with the values of label column `pivot` as columns: rows with equal other labels are one line.

    Raises:
        TableSpecError: a row has too few labels, or two rows fall on one cell.
    """
    if spec.pivot is None:
        return table
    at = spec.label_index(spec.pivot)
    lines: dict[tuple[str, ...], dict[str, TableRow]] = {}
    for row in table.rows:
        if len(row.labels) != len(spec.labels):
            raise TableSpecError(f"pivot: row {row.name!r} needs all {len(spec.labels)} labels", "rows")
        line = lines.setdefault((*row.labels[:at], *row.labels[at + 1 :]), {})
        if row.labels[at] in line:
            other = line[row.labels[at]].name
            raise TableSpecError(f"pivot: rows {other!r} and {row.name!r} have the same labels", "rows")
        line[row.labels[at]] = row
    values = list(dict.fromkeys(row.labels[at] for row in table.rows))
    return replace(
        table,
        columns=tuple(_column(column, value) for column in table.columns for value in values),
        rows=tuple(_line(labels, line, values, len(table.columns)) for labels, line in lines.items()),
        labels=(*table.labels[:at], *table.labels[at + 1 :]),
        pivot=len(values),
    )


def _column(column: Column, value: str) -> Column:
    title = f"{column.title} {column.detail}" if column.detail else column.title
    return column.model_copy(update={"title": value, "group": (*column.groups, title), "detail": None})


def _line(labels: tuple[str, ...], line: dict[str, TableRow], values: list[str], count: int) -> TableRow:
    missing = TableCell(None, state="no such row")
    return TableRow(
        name=", ".join(row.name for row in line.values()),
        label=", ".join(labels),
        baseline=all(row.baseline for row in line.values()),
        cells=tuple(line[value].cells[j] if value in line else missing for j in range(count) for value in values),
        labels=labels,
        rule=any(row.rule for row in line.values()),
    )
