"""A table as GitHub Markdown that also reads well in a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from lmk_experiments.tables.spec import Column
from lmk_experiments.tables.table import Table, TableCell, TableRow

_SPECIAL = re.compile(r"[\\`*|~$\[\]]|(?<!\w)_|_(?!\w)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(text: str) -> str:
    """Text of the user's as it stands, whatever Markdown or HTML would make of it.

    >>> escape("a|b <i>_x_ lmk_32")
    'a\\\\|b &lt;i&gt;\\\\_x\\\\_ lmk_32'
    """
    plain = " ".join(text.split())
    for letter, entity in _ENTITIES.items():
        plain = plain.replace(letter, entity)
    return _SPECIAL.sub(lambda match: f"\\{match.group()}", plain)


def render_markdown(table: Table) -> str:
    """The table, its legend, its notes and where its numbers come from.

    Markdown has one header line and no spans: where columns have groups, the groups stand in the header, each above the
    first of its columns, and the columns' own titles are the first line under it.
    """
    grouped = any(column.group for column in table.columns)
    titles = [escape(column.title) for column in table.columns]
    lines = [["", *_groups(table.columns)], ["", *(f"*{title}*" for title in titles)]] if grouped else [["", *titles]]
    for row in table.rows:
        shown = zip(table.columns, row.cells, strict=True)
        lines.append([_label(row), *(_cell(*pair, differences=table.differences) for pair in shown)])
    parts = [f"### {escape(table.title)}", _grid(lines), *_below(table)]
    return "\n\n".join(parts) + "\n"


def _groups(columns: Sequence[Column]) -> list[str]:
    before, names = None, []
    for column in columns:
        names.append(escape(column.group) if column.group and column.group != before else "")
        before = column.group
    return names


def _label(row: TableRow) -> str:
    return f"{escape(row.label)} (baseline)" if row.baseline else escape(row.label)


def _cell(column: Column, cell: TableCell, *, differences: bool) -> str:
    if cell.value is None:
        return f"*{escape(cell.state)}*"
    value = f"{cell.value:z.{column.digits}f}"
    if cell.deviation is not None:
        value += f" ± {cell.deviation:.{column.digits}f}"
    value = {1: f"**{value}**", 2: f"<u>{value}</u>"}.get(cell.rank, value)
    if differences and cell.difference is not None:
        value += f" ({cell.difference:+z.{column.digits}f})"
    return value if not cell.state else f"{value}, {cell.seeds} of {cell.planned} seeds"


def _grid(lines: list[list[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    widths = [max(3, *map(_width, column)) for column in zip(*lines, strict=True)]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    padded = [
        [_pad(text, width, left=index == 0) for index, (text, width) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [padded[0], rule, *padded[1:]])


def _pad(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - _width(text))
    return text + space if left else space + text


def _width(text: str) -> int:
    """Columns of a terminal: East Asian letters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _below(table: Table) -> list[str]:
    cells = [cell for row in table.rows for cell in row.cells]
    legend = []
    if any(cell.rank for cell in cells):
        legend.append("**Bold**: best of its column; <u>underlined</u>: second best.")
    if any(cell.deviation is not None for cell in cells):
        legend.append("±: sample standard deviation over seeds.")
    if table.differences and len(table.baselines) == 1:
        legend.append(f"In parentheses: difference to {escape(table.baselines[0].label)}.")
    if table.differences and len(table.baselines) > 1:
        legend.append("The grid has several baselines, so no differences are shown.")
    scales = {column.scale for column in table.columns if column.suite is not None}
    if scales == {100.0}:
        legend.append("Scores are multiplied by 100.")
    notes = [f"- {escape(note)}" for note in table.notes]
    source = f"Grid {escape(table.grid)}; numbers from {escape(table.source)}."
    return [part for part in (" ".join(legend), "\n".join(notes), source) if part]
