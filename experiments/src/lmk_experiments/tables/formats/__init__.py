"""A table written down: Markdown, LaTeX, HTML, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lmk_experiments.configs import explain
from lmk_experiments.tables.formats.data import render_csv, render_json
from lmk_experiments.tables.formats.html import render_html
from lmk_experiments.tables.formats.latex import render_latex
from lmk_experiments.tables.formats.markdown import render_markdown
from lmk_experiments.tables.table import Table

__all__ = ["FORMATS", "chosen_format", "render", "render_markdown"]

FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "md": lambda tables: "\n".join(map(render_markdown, tables)),
    "tex": render_latex,
    "csv": render_csv,
    "html": render_html,
    "json": render_json,
}
"""By the ending of a file."""


def chosen_format(asked: str | None, out: Path | None) -> str:
    """The format that was asked for, else that of the file's ending, else Markdown.

    Raises:
        ValueError: there is no such format; the message lists them.
    """
    if asked is not None and asked not in FORMATS:
        raise ValueError(f"--format {asked}: {explain(asked, FORMATS)}")
    ending = "" if out is None else out.suffix.removeprefix(".").lower()
    return asked or (ending if ending in FORMATS else "md")


def render(tables: Sequence[Table], form: str, *, terminal: bool = False) -> str:
    """Tables of one grid, at least one, in format ``form`` (a key of ``FORMATS``).

    Args:
        terminal: whether Markdown is for a person's eyes alone.
    """
    if terminal and form == "md":
        return "\n".join(render_markdown(table, terminal=True) for table in tables)
    return FORMATS[form](tables)
