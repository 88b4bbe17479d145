"""A table in LaTeX, with booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmk_experiments.tables.formats.layout import (
    Shown,
    Span,
    lay_out,
    legend,
    origin,
    ranked,
    shown_rows,
)
from lmk_experiments.tables.table import Table

_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\to$",
    "†": r"$^{\dagger}$",
    "[": "{[}",
    "]": "{]}",
}
_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""A table that is wider than the text is scaled to it; a narrow one stays as it is."""


def escape(text: str) -> str:
    """Text of the user's as it stands. Letters beyond Latin ones need XeLaTeX or LuaLaTeX and a font that has them.

    >>> escape("mean@64 & lmk_32 (50%)")
    'mean@64 \\\\& lmk\\\\_32 (50\\\\%)'
    """
    return "".join(_SIGNS.get(letter, letter) for letter in " ".join(text.split()))


def render_latex(tables: Sequence[Table]) -> str:
    r"""Every table as a ``table`` environment, to be read with ``\input``.

    The document needs ``booktabs``, and ``graphicx``, which scales wide tables to the text.
    """
    head = "% Needs \\usepackage{booktabs,graphicx} and, for quotation marks, \\usepackage[T1]{fontenc}.\n"
    return head + "\n".join(map(_table, tables, range(len(tables))))


def _table(table: Table, number: int) -> str:
    layout = lay_out(table)
    body = [
        _FIT,
        rf"\begin{{tabular}}{{@{{}}{'l' * layout.label_count}{'r' * len(table.columns)}@{{}}}}",
        r"\toprule",
        *_header(layout.header, layout.label_count),
        r"\midrule",
    ]
    for index, ((row, cells), labels) in enumerate(zip(shown_rows(table), layout.labels, strict=True)):
        if row.rule and index:
            body.append(r"\midrule")
        texts = [_spanned(escape(span.text) if span.rows else "", span.columns, "l") for span in labels]
        if row.baseline and not table.labels:
            texts[-1] += " (baseline)"
        body.append(_line([*texts, *map(_cell, cells)]))
    body += [r"\bottomrule", r"\end{tabular}}"]
    name = re.sub(r"[^A-Za-z0-9-]+", "-", table.grid).strip("-") + (f"-{number}" if number else "")
    return "\n".join(
        [
            r"\begin{table}[tbp]",
            r"\centering\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{escape(table.title)}}}",
            rf"\label{{tab:{name}}}",
            *body,
            *_below(table),
            r"\end{table}",
            "",
        ]
    )


def _header(lines: Sequence[Sequence[Span]], labels: int) -> list[str]:
    written = []
    for line in lines:
        texts, rules, at = [], [], 1
        for span in line:
            end = at + span.columns - 1
            place = "l" if at <= labels and span.columns == 1 else "c"
            texts.append(
                escape(span.text) if place == "l" else _spanned(escape(span.text), span.columns, "c", force=True)
            )
            if span.columns > 1 and span.text:
                rules.append(rf"\cmidrule(lr){{{at}-{end}}}")
            at = end + 1
        written.append(_line(texts))
        if rules:
            written.append("".join(rules))
    return written


def _spanned(text: str, columns: int, place: str, *, force: bool = False) -> str:
    if columns == 1 and not (force and text):
        return text
    return rf"\multicolumn{{{columns}}}{{{place}}}{{{text}}}"


def _line(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


def _cell(shown: Shown) -> str:
    value = escape(shown.value)
    value = {1: rf"\textbf{{{value}}}", 2: rf"\underline{{{value}}}"}.get(shown.rank, value)
    if not shown.value:
        value = rf"\emph{{{escape(shown.state)}}}"
    if shown.marked:
        value += r"$^{\dagger}$"
    if shown.difference:
        value += rf" {{\scriptsize (${shown.difference}$)}}"
    if shown.published:
        beside = ", ".join(filter(None, (shown.published, f"${shown.against}$" if shown.against else "")))
        value += rf" {{\scriptsize {{[}}{beside}{{]}}}}"
    return f"{value}, {shown.seeds}" if shown.seeds else value


def _below(table: Table) -> list[str]:
    within = ranked(table)
    marks = [rf"\textbf{{Bold}}: best {escape(within)}; \underline{{underlined}}: second best."] if within else []
    said = [*marks, *map(escape, [*legend(table), *table.notes, origin(table)])]
    return [r"\par\smallskip", rf"{{\footnotesize {' '.join(said)}\par}}"]
