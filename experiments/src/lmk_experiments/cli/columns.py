"""Aligned columns for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> str:
    """``rows`` with every column as wide as its widest cell; the first row is the header.

    >>> print(columns([["row", "state"], ["cls", "done"]]))
    row  state
    ---  -----
    cls  done
    """
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in ruled)
    return "\n".join(lines)
