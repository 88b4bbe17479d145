"""Charts as inline SVG: bars with intervals, and lines. Colors are classes of the page's style, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

HUES = 8
"""Colors before they repeat with another dash."""
_WIDTH = 380
_HEIGHT = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 10, 38
_BAR, _LABELS, _LETTER = 22, 118, 6.4
_LABEL_LETTERS = 17
_STATE_LETTERS = 34
_ASIDE = 3.5
"""Between points of one place that have whiskers, so that these don't hide each other."""
_POINTS = 200
"""Points of a line; of more, neighbours are averaged."""


@dataclass(frozen=True)
class Bar:
    """One row of a bar chart; ``text`` is what is written for its value."""

    label: str
    value: float | None
    text: str
    interval: tuple[float, float] | None = None
    hue: int = 0


@dataclass(frozen=True)
class Series:
    """One line; a faint one is a seed behind its row's others. ``bounds`` are the ends of a whisker at each point."""

    name: str
    points: Sequence[tuple[float, float]]
    hue: int = 0
    faint: bool = False
    bounds: Sequence[tuple[float, float] | None] = ()


def bars(identity: str, title: str, description: str, listed: Sequence[Bar]) -> str:
    """Horizontal bars from zero, each with its interval. ``identity`` makes ids of the page unique."""
    ends = [end for bar in listed for end in (bar.value, *(bar.interval or ())) if end is not None]
    ticks = nice_ticks(min([0.0, *ends]), max([*ends, 1e-9]), 4)
    low, high = ticks[0], max(ticks[-1], max([*ends, 1e-9]))
    span = _WIDTH - _LABELS - 10 - _LETTER * max([3, *(len(bar.text) for bar in listed if bar.value is not None)])

    def x(value: float) -> float:
        return _LABELS + (value - low) / (high - low) * span

    height = len(listed) * _BAR + 24
    parts = [
        f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="0" y2="{height - 18}"/>'
        f'<text class="tick" x="{x(tick):.1f}" y="{height - 5}" text-anchor="middle">{tick:,.6g}</text>'
        for tick in ticks
    ]
    for index, bar in enumerate(listed):
        middle = index * _BAR + _BAR / 2 + 1
        name = shortened(bar.label)
        parts.append(
            f'<text class="label" x="{_LABELS - 6}" y="{middle + 4}" text-anchor="end">{escape(name)}'
            f"<title>{escape(bar.label)}</title></text>"
        )
        if bar.value is not None:
            start, end = sorted((x(0.0), x(bar.value)))
            parts.append(
                f'<rect class="fill{bar.hue % HUES}" x="{start:.1f}" y="{middle - 7}" '
                f'width="{end - start:.1f}" height="14"/>'
            )
        if bar.interval is not None:
            left, right = map(x, bar.interval)
            parts.append(
                f'<path class="whisker" d="M{left:.1f} {middle}H{right:.1f}'
                f'M{left:.1f} {middle - 4}v8M{right:.1f} {middle - 4}v8"/>'
            )
        after = x(max([bar.value or 0.0, *(bar.interval or ())])) + 5
        said = (
            bar.text
            if bar.value is not None or len(bar.text) <= _STATE_LETTERS
            else bar.text[: _STATE_LETTERS - 1] + "…"
        )
        parts.append(f'<text class="label" x="{after:.1f}" y="{middle + 4}">{escape(said)}</text>')
    return _svg(identity, title, description, height, parts)


def lines(
    identity: str,
    title: str,
    description: str,
    listed: Sequence[Series],
    *,
    x_label: str,
    places: Sequence[str] | None = None,
    from_zero: bool = False,
) -> str:
    """Lines over steps, or over named ``places`` at x = 0, 1, ...; whiskers stand side by side.

    Args:
        from_zero: whether zero is shown, with a line, wherever the values are: for differences.
    """
    ys = [y for one in listed for _, y in one.points]
    ys += [end for one in listed for ends in one.bounds for end in ends or ()] + [0.0] * from_zero
    xs = [x for one in listed for x, _ in one.points]
    y_ticks = nice_ticks(min(ys), max(ys), 5)
    x_ticks = (
        list(enumerate(places)) if places else [(tick, f"{tick:,.6g}") for tick in nice_ticks(min(xs), max(xs), 5)]
    )
    x_low, x_high = (-0.3, len(places) - 0.7) if places else (min(x_ticks[0][0], *xs), max(xs))
    y_low, y_high = min(y_ticks[0], *ys), max(y_ticks[-1], *ys)

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / ((x_high - x_low) or 1.0)
        up = (y - y_low) / ((y_high - y_low) or 1.0)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _BOTTOM - _TOP)

    parts = []
    for tick in y_ticks:
        y = at(x_low, tick)[1]
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{tick:,.6g}</text>'
        )
    for place, text in x_ticks:
        x = at(place, y_low)[0]
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15}" text-anchor="middle">{escape(text)}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text class="tick" x="{middle}" y="{_HEIGHT - 5}" text-anchor="middle">{escape(x_label)}</text>')
    if from_zero:
        y = at(x_low, 0.0)[1]
        parts.append(f'<line class="zero" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    aside = _ASIDE if any(one.bounds for one in listed) else 0.0
    for index, one in sorted(enumerate(listed), key=lambda pair: not pair[1].faint):
        shift = aside * (index - (len(listed) - 1) / 2)
        points = [(x + shift, y) for x, y in (at(*point) for point in thinned(one.points))]
        whiskers = [ends and (at(0.0, ends[0])[1], at(0.0, ends[1])[1]) for ends in one.bounds]
        parts += _line(one, points, whiskers, dots=bool(places) or len(points) == 1)
    return _svg(identity, title, description, _HEIGHT, parts)


def _line(
    one: Series,
    points: Sequence[tuple[float, float]],
    whiskers: Sequence[tuple[float, float] | None],
    *,
    dots: bool,
) -> list[str]:
    """A line with its dots and whiskers, all in the chart's own units."""
    style = f"line{one.hue % HUES}{' faint' if one.faint else ''}{' dashed' if one.hue >= HUES else ''}"
    drawn = "".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
    parts = [f'<path class="line {style}" d="{drawn}"><title>{escape(one.name)}</title></path>']
    if dots:
        parts += [f'<circle class="fill{one.hue % HUES}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    for (x, _), ends in zip(points, whiskers, strict=False):
        if ends is not None:
            parts.append(f'<path class="bound line{one.hue % HUES}" d="M{x:.1f} {ends[0]:.1f}V{ends[1]:.1f}"/>')
    return parts


def shortened(label: str) -> str:
    """A label that fits beside a bar; what is left out is in the middle, for long names differ at their ends.

    >>> shortened("modernbert-base-lmk-var-32")
    'modernbe…k-var-32'
    """
    half = _LABEL_LETTERS // 2
    return label if len(label) <= _LABEL_LETTERS else f"{label[:half]}…{label[-half:]}"


def _svg(identity: str, title: str, description: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height:g}" aria-labelledby="{identity}-t {identity}-d">'
        f'<title id="{identity}-t">{escape(title)}</title><desc id="{identity}-d">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers from at most ``low`` to at least nearly ``high``, about ``count`` of them.

    >>> nice_ticks(0.0, 67.6, 4)
    [0.0, 20.0, 40.0, 60.0]
    >>> nice_ticks(3.0, 3.0, 5)
    [3.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most ``_POINTS`` points: each the mean of neighbours; the first and the last stay where they are."""
    if len(points) <= _POINTS:
        return list(points)
    size = math.ceil((len(points) - 2) / (_POINTS - 2))
    inner = points[1:-1]
    groups = [inner[start : start + size] for start in range(0, len(inner), size)]
    means = [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]
    return [points[0], *means, points[-1]]
