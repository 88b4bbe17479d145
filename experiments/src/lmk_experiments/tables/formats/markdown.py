"""A table as GitHub Markdown that also reads well in a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from lmk_experiments.tables.formats.layout import MARK, Layout, Shown, Span, lay_out, legend, origin, ranked, shown_rows
from lmk_experiments.tables.table import Table

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


def _plain(text: str) -> str:
    """Text for the eyes alone."""
    return " ".join(text.split())


_Write = Callable[[str], str]


def render_markdown(table: Table, *, terminal: bool = False) -> str:
    """The table, its legend, its notes and where its numbers come from.

    For a ``terminal`` nothing is escaped: nobody parses it there, and ``p &lt; 0.05`` is hard to read.

    Markdown has one header line and no spans: further header lines are the first lines under it, a header that spans
    columns stands above the first of them, and a label equal to the one above it is left out. A column alone, with
    nothing above its title, has the title in that line.
    """
    write = _plain if terminal else escape
    layout = lay_out(table)
    first, *others = _header(layout, write)
    lines = [first, *([f"*{text}*" if text else "" for text in line] for line in others)]
    for (row, cells), labels in zip(shown_rows(table), layout.labels, strict=True):
        texts = _spread([span if span.rows else Span("", span.columns) for span in labels], write)
        if row.baseline and not table.labels:
            texts[-1] += " (baseline)"
        lines.append([*texts, *(_cell(one, write) for one in cells)])
    parts = [f"### {write(table.title)}", _grid(lines, layout.label_count), *_below(table, write)]
    return "\n\n".join(parts) + "\n"


def _spread(spans: Sequence[Span], write: _Write) -> list[str]:
    return [text for span in spans for text in (write(span.text), *[""] * (span.columns - 1))]


def _header(layout: Layout, write: _Write) -> list[list[str]]:
    lines = [_spread(line, write) for line in layout.header]
    joined = [[span.columns > 1 for span in line for _ in range(span.columns)] for line in layout.header]
    for column in range(layout.label_count, len(lines[0])):
        texts = [line[column] for line in lines]
        if any(line[column] for line in joined):
            continue
        blank = next((index for index, text in enumerate(texts) if text), 0)
        for line, text in zip(lines, [*texts[blank:], *[""] * blank], strict=True):
            line[column] = text
    return lines


def _cell(shown: Shown, write: _Write) -> str:
    value = {1: f"**{shown.value}**", 2: f"<ins>{shown.value}</ins>"}.get(shown.rank, shown.value)
    if not shown.value:
        value = f"*{write(shown.state)}*"
    if shown.marked:
        value += MARK
    if shown.difference:
        value += f" ({shown.difference})"
    if shown.published:
        value += f" \\[{', '.join(filter(None, (shown.published, shown.against)))}\\]"
    return f"{value}, {shown.seeds}" if shown.seeds else value


def _grid(lines: list[list[str]], labels: int) -> str:
    """Aligned columns: the labels to the left, the others to the right."""
    widths = [max(3, *map(_width, column)) for column in zip(*lines, strict=True)]
    left = [index < labels for index in range(len(widths))]
    rule = [
        ":" + "-" * (width - 1) if first else "-" * (width - 1) + ":" for width, first in zip(widths, left, strict=True)
    ]
    padded = [
        [_pad(text, width, left=first) for text, width, first in zip(line, widths, left, strict=True)] for line in lines
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


def _below(table: Table, write: _Write) -> list[str]:
    within = ranked(table)
    marks = [f"**Bold**: best {write(within)}; <ins>underlined</ins>: second best."] if within else []
    said = " ".join([*marks, *map(write, legend(table))])
    notes = [f"- {write(note)}" for note in table.notes]
    return [part for part in (said, "\n".join(notes), write(origin(table))) if part]
