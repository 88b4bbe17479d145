"""Tables for programs: CSV and JSON, with every digit."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lmk_experiments.elsewhere import ABSENT
from lmk_experiments.tables.table import Table, TableCell


def render_csv(tables: Sequence[Table]) -> str:
    """One line a row: its name, its labels, then for every column its value, or the state of a missing one (nothing
    where a row from elsewhere has none).

    What the tables have of these stands after a column, with the column's name before it: ``±``, ``low`` and ``high``
    (95% interval of the value), ``difference``, ``difference low``, ``difference high``, ``p``, ``p adjusted``,
    ``significant``, ``queries``, ``comparisons``, ``published`` and ``against``. Several tables of the same rows stand
    beside each other, their columns named by the suite too.
    """
    labels = tables[0].labels
    header = ["row", *("/".join(filter(None, (label.group, label.title))) for label in labels)]
    lines = [[row.name, *_padded(row.labels, len(labels))] for row in tables[0].rows]
    for table in tables:
        extras = _extras(table)
        for index, column in enumerate(table.columns):
            name = column.name if len(tables) == 1 else f"{column.suite}: {column.name}"
            header += [name, *(f"{name} {extra}" for extra in extras)]
            for line, row in zip(lines, table.rows, strict=True):
                line += _values(row.cells[index], extras)
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *lines])
    return stream.getvalue()


def _padded(labels: Sequence[str], count: int) -> list[str]:
    return [*labels, *[""] * (count - len(labels))]


def _extras(table: Table) -> list[str]:
    cells = [cell for row in table.rows for cell in row.cells]
    there = {name for cell in cells for name, value in _extra(cell).items() if value is not None}
    if not (table.differences or table.significance):
        there.discard("difference")
    if not table.published:
        there -= {"published", "against"}
    return [name for name in _extra(TableCell(None)) if name in there]


def _extra(cell: TableCell) -> dict[str, float | int | bool | None]:
    test, (low, high) = cell.comparison, cell.interval or (None, None)
    under, over = (test.interval if test else None) or (None, None)
    return {
        "±": cell.deviation,
        "low": low,
        "high": high,
        "difference": cell.difference,
        "difference low": under,
        "difference high": over,
        "p": test.p if test else None,
        "p adjusted": test.adjusted if test else None,
        "significant": test.significant if test else None,
        "queries": test.queries if test else None,
        "comparisons": test.comparisons if test else None,
        "published": cell.published,
        "against": cell.against,
    }


def _values(cell: TableCell, extras: Sequence[str]) -> list[str]:
    held = _extra(cell)
    extra = ["" if held[name] is None else repr(held[name]) for name in extras]
    # What another model was never evaluated on is no state that changes: an empty cell keeps a column of numbers.
    state = "" if cell.state == ABSENT else cell.state or "no score"
    return [state if cell.value is None else repr(cell.value), *extra]


def render_json(tables: Sequence[Table]) -> str:
    """The grid and its tables; ``value`` is null where there is none, and ``state`` says why."""
    value = {"schema": 1, "grid": tables[0].grid, "tables": [_table(table) for table in tables]}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _table(table: Table) -> dict[str, Any]:
    columns = [
        {"name": column.name, **column.model_dump(mode="json", include={"title", "detail", "unit", "suite", "task"})}
        | {"groups": list(column.groups), "metric": None if column.suite is None else column.metric}
        for column in table.columns
    ]
    rows = [
        {
            "row": row.name,
            "label": row.label,
            "labels": list(row.labels),
            "baseline": row.baseline,
            "cells": [{**asdict(cell), "against": cell.against} for cell in row.cells],
        }
        for row in table.rows
    ]
    return {
        "title": table.title,
        "source": table.source,
        "published": table.published or None,
        "significance": None if table.significance is None else asdict(table.significance),
        "labels": [label.model_dump(mode="json") for label in table.labels],
        "columns": columns,
        "rows": rows,
        "notes": list(table.notes),
    }
