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
    widths = _widths(rows)
    return "\n".join(_lines([rows[0], ["-" * width for width in widths], *rows[1:]], widths))


def next_steps(steps: Sequence[tuple[str, str]]) -> str:
    """What a person may type next, and what each of it shows.

    >>> print(next_steps([("lmk ui", "the runs"), ("lmk status g", "every cell")]))
    Where to look next:
      lmk ui        the runs
      lmk status g  every cell
    """
    lines = _lines(steps, _widths(steps))
    return "\n".join(["Where to look next:", *(f"  {line}" for line in lines)])


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]


def _lines(rows: Sequence[Sequence[str]], widths: list[int]) -> list[str]:
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
