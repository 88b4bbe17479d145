"""Tables as one HTML page that needs nothing beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape as _escape
from itertools import accumulate

from lmk_experiments.tables.formats.layout import MARK, Shown, Span, lay_out, legend, origin, ranked, shown_rows
from lmk_experiments.tables.table import Table

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem; max-width: 90rem; }
h1 { font-size: 1.25rem; } h2 { font-size: 1.05rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; border-block: 2px solid; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; font-weight: normal; }
thead th { text-align: center; font-weight: 600; }
thead th.span { border-bottom: 1px solid; }
th.label { text-align: left; vertical-align: top; }
tbody tr:first-child > *, tbody tr.rule > * { border-top: 1px solid; }
i, small, .below { color: GrayText; } small { font-size: .8em; } sup { line-height: 0; }
.below { max-width: 60rem; }
"""


_CODE = re.compile(r"`([^`]+)`")


def escape(text: str) -> str:
    """Text of the user's as it stands."""
    return _escape(text, quote=True)


def prose(text: str) -> str:
    """A sentence, in which what stands between backticks is code.

    >>> prose("run `lmk sync` if a < b")
    'run <code>lmk sync</code> if a &lt; b'
    """
    return _CODE.sub(r"<code>\1</code>", escape(text))


def render_html(tables: Sequence[Table]) -> str:
    """A page with every table; its style is in the page and it asks for no script."""
    title = escape(tables[0].title if len(tables) == 1 else f"{tables[0].grid}, task by task")
    head = ["<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', f"<title>{title}</title>"]
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    start = [*head, view, f"<style>{_STYLE}</style>", "</head>", "<body>"]
    level = "h1" if len(tables) == 1 else "h2"
    top = [] if len(tables) == 1 else [f"<h1>{title}</h1>"]
    return "\n".join([*start, *top, *(table_section(table, level) for table in tables), "</body>", "</html>", ""])


def table_section(table: Table, level: str | None) -> str:
    """A table, what explains it and where its numbers come from; under a heading of ``level`` where one is given."""
    layout = lay_out(table)
    heading = [f"<{level}>{escape(table.title)}</{level}>"] if level else []
    # The rows' names stay in view where they are one column; merged ones of several columns could not.
    stick = "" if table.labels else " stick"
    name = f'<div class="scroll{stick}" role="region" tabindex="0" aria-label="{escape(table.title)}">'
    lines = ["<section>", *heading, name, "<table>", "<thead>"]
    for header in layout.header:
        starts = accumulate((span.columns for span in header), initial=0)
        cells = [_header(span, label=at < layout.label_count) for span, at in zip(header, starts, strict=False)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines += ["</thead>", "<tbody>"]
    for index, ((row, cells), labels) in enumerate(zip(shown_rows(table), layout.labels, strict=True)):
        rule = ' class="rule"' if row.rule and index else ""
        suffix = " (baseline)" if row.baseline and not table.labels else ""
        texts = [_label(span, suffix) for span in labels if span.rows]
        lines.append(f"<tr{rule}>{''.join([*texts, *map(_cell, cells)])}</tr>")
    lines += ["</tbody>", "</table>", "</div>", *_below(table), "</section>"]
    return "\n".join(lines)


def _header(span: Span, *, label: bool) -> str:
    kind = ' class="span"' if span.columns > 1 else ' class="label"' if label else ""
    scope = "colgroup" if span.columns > 1 else "col"
    return f'<th scope="{scope}"{kind}{_times("colspan", span.columns)}>{escape(span.text)}</th>'


def _label(span: Span, suffix: str) -> str:
    spans = _times("colspan", span.columns) + _times("rowspan", span.rows)
    scope = "rowgroup" if span.rows > 1 else "row"
    return f'<th scope="{scope}" class="label"{spans}>{escape(span.text)}{suffix}</th>'


def _times(name: str, count: int) -> str:
    return f' {name}="{count}"' if count > 1 else ""


def _cell(shown: Shown) -> str:
    value = escape(shown.value)
    value = {1: f"<b>{value}</b>", 2: f"<u>{value}</u>"}.get(shown.rank, value)
    if not shown.value:
        value = f"<i>{escape(shown.state)}</i>"
    if shown.marked:
        value += f"<sup>{MARK}</sup>"
    if shown.difference:
        value += f" <small>({shown.difference})</small>"
    if shown.published:
        value += f" <small>[{', '.join(filter(None, (shown.published, shown.against)))}]</small>"
    return f"<td>{value}{f', {shown.seeds}' if shown.seeds else ''}</td>"


def _below(table: Table) -> list[str]:
    within = ranked(table)
    marks = [f"<b>Bold</b>: best {escape(within)}; <u>underlined</u>: second best."] if within else []
    said = " ".join([*marks, *map(prose, legend(table))])
    notes = "".join(f"<li>{prose(note)}</li>" for note in table.notes)
    return [
        *([f'<p class="below">{said}</p>'] if said else []),
        *([f'<ul class="below">{notes}</ul>'] if notes else []),
        f'<p class="below">{escape(origin(table))}</p>',
    ]
