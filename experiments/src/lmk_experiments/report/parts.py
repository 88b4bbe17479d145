"""Small pieces of HTML. Whatever is text is escaped here, and nowhere left to the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from lmk_experiments.report.charts import HUES
from lmk_experiments.tables.formats.html import prose


@dataclass(frozen=True)
class Link:
    """A text with an address, which is http or https."""

    text: str
    address: str


@dataclass(frozen=True)
class Long:
    """A text that may be broken into lines."""

    text: str


LONG = 24
"""Characters that a column has room for; a text of more is broken into lines, and its column is wider."""

Cell = str | float | int | None | Link | Long


def text(value: str) -> str:
    """Text as it stands, whatever HTML would make of it."""
    return escape(value, quote=True)


def data_table(name: str, header: Sequence[str], rows: Sequence[Sequence[Cell]], *, labels: int = 1) -> str:
    """A table in a box of its own that scrolls; its first ``labels`` columns are texts, the others numbers or texts."""
    head = "".join(f'<th scope="col"{_label(index < labels)}>{text(one)}</th>' for index, one in enumerate(header))
    body = "".join(f"<tr>{''.join(_cell(one, index, labels) for index, one in enumerate(row))}</tr>" for row in rows)
    return scroll(name, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def scroll(name: str, inner: str) -> str:
    """A box that scrolls sideways, with the keyboard too."""
    return f'<div class="scroll stick" role="region" tabindex="0" aria-label="{text(name)}">{inner}</div>'


def _label(there: bool) -> str:
    return ' class="label"' if there else ""


def _cell(value: Cell, index: int, labels: int) -> str:
    if index == 0:
        return f'<th scope="row" class="label">{_shown(value)}</th>'
    is_long = isinstance(value, Long) and len(value.text) > LONG
    kinds = [*(["text"] if index < labels else []), *(["long"] if is_long else [])]
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{kind}>{_shown(value)}</td>"


def _shown(value: Cell) -> str:
    match value:
        case None:
            return "–"
        case Link():
            shown = text(value.text)
            return f'<a href="{text(value.address)}" rel="noreferrer">{shown}</a>' if value.address else shown
        case Long():
            return prose(value.text)
        case float():
            return f"{value:,.4g}"
    return text(str(value))


def figure(caption: str, svg: str, details: str) -> str:
    """A chart with its caption, and its data as a table that unfolds."""
    folded = f"<details><summary>The numbers</summary>{details}</details>"
    return f"<figure><figcaption>{text(caption)}</figcaption>{svg}{folded}</figure>"


def legend(hues: Mapping[str, int]) -> str:
    """The colors of rows."""
    items = (
        f'<li><span class="fill{hue % HUES}{" striped" if hue >= HUES else ""}"></span>{text(name)}</li>'
        for name, hue in hues.items()
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def section(identity: str, heading: str, *inner: str) -> str:
    """A section with a heading that the page's contents link to."""
    return f'<section id="{identity}"><h2>{text(heading)}</h2>\n{"".join(inner)}\n</section>'


def paragraph(said: str, kind: str = "note") -> str:
    """A paragraph; what stands between backticks is code."""
    return f'<p class="{kind}">{prose(said)}</p>'
