"""The one plot: every ratio with its spread, on a logarithmic axis with a line at 1. It reads without colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from suite.parts import Part
from suite.result import Result
from suite.tables import ratio_text, results_of

LEFT, WIDTH, RIGHT, LINE, TOP = 650, 400, 190, 17, 48
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def plot(parts: Sequence[Part]) -> str:
    """An SVG: a row for each result, grouped by benchmark; a hollow point is worse than its peer, a grey one may be."""
    results = results_of(parts)
    groups = {one.benchmark: [other for other in results if other.benchmark == one.benchmark] for one in results}
    ends = [value for one in results for value in (one.ratio.low, one.ratio.high)] or [1.0]
    axis = Axis(min(0.8, *ends) / 1.15, max(2.0, *ends) * 1.15)
    rows: list[str] = []
    y = TOP
    for name, members in groups.items():
        rows.append(_text(8, y + 12, name, 'font-weight="bold"'))
        y += LINE
        for one in members:
            rows += _row(one, y, axis)
            y += LINE
        y += 6
    width = LEFT + WIDTH + RIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 14}" viewBox="0 0 {width} {y + 14}" '
            'font-family="sans-serif" font-size="11" fill="#111">',
            "<title>How many times better than each peer, with the spread</title>",
            f'<rect width="{width}" height="{y + 14}" fill="#fff"/>',
            _text(LEFT, 14, "times better than the peer, median and spread; hollow: worse, grey: unclear"),
            *_scale(axis, y),
            *rows,
            "</svg>\n",
        ]
    )


class Axis:
    """Ratios to places, logarithmically."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def at(self, value: float) -> float:
        """Where a ratio stands."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(LEFT + WIDTH * min(1.0, max(0.0, share)), 1)


def _scale(axis: Axis, bottom: float) -> list[str]:
    out = []
    for tick in TICKS:
        if axis.low <= tick <= axis.high:
            x, weight = axis.at(tick), ('stroke="#111" stroke-width="1.5"' if tick == 1 else 'stroke="#ccc"')
            out.append(f'<line x1="{x}" y1="{TOP - 12}" x2="{x}" y2="{bottom}" {weight}/>')
            out.append(_text(x, TOP - 16, f"{tick:g}", 'text-anchor="middle"'))
    return out


def _row(one: Result, y: float, axis: Axis) -> list[str]:
    ratio, middle = one.ratio, y + 8
    fill = "#fff" if one.worse else "#999" if one.unclear else "#111"
    return [
        _text(22, y + 12, f"{one.case}, beside {one.peer.name}"),
        f'<line x1="{axis.at(ratio.low)}" y1="{middle}" x2="{axis.at(ratio.high)}" y2="{middle}" stroke="#555" '
        'stroke-width="4"/>',
        f'<circle cx="{axis.at(ratio.median)}" cy="{middle}" r="4" fill="{fill}" stroke="#111" stroke-width="1.5"/>',
        _text(LEFT + WIDTH + 10, y + 12, ratio_text(one)),
    ]


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}"{" " + more if more else ""}>{escape(text)}</text>'
