"""Numbers as people write them. Plain Python."""

from __future__ import annotations


def plain_number(value: float) -> str:
    """A number without an exponent, with commas between thousands.

    >>> [plain_number(value) for value in (0.25, 3.0, 8192.0)]
    ['0.25', '3', '8,192']
    """
    return f"{value:,.0f}" if value >= 10 or float(value).is_integer() else f"{value:g}"


def token_span(low: int, high: int) -> str:
    """A bin of token counts, in thousands of 1,024 where they are whole.

    >>> token_span(512, 1024), token_span(8192, 16384)
    ('512–1k', '8k–16k')
    """
    return f"{_short(low)}–{_short(high)}"


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)
