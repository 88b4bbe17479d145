"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun, which has an "s" unless ``plural`` says otherwise.

    >>> counted(1, "comparison"), counted(2, "query", "queries"), counted(1200, "row")
    ('1 comparison', '2 queries', '1,200 rows')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
