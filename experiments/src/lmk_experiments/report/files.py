"""The charts of a report as SVG files that stand alone: for a README, a paper or a talk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from lmk_experiments.records.atomic import write_text
from lmk_experiments.report.charts import HUES
from lmk_experiments.report.gather import Gathered
from lmk_experiments.report.results import Drawn, bars_drawn, curves_drawn, profiles_drawn
from lmk_experiments.report.style import CHART_STYLE

_VIEW = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_MARGIN, _TITLE, _LINE, _LETTER = 8, 22, 18, 6.6


def write_charts(gathered: Gathered, folder: Path) -> list[Path]:
    """Write every chart of the report to ``folder``, named after its title; files of these names are replaced.

    Each has its title, its colors' names and its style within, light or dark as the reader's setting is.
    """
    written: list[Path] = []
    for chart in (*profiles_drawn(gathered), *bars_drawn(gathered), *curves_drawn(gathered)):
        stem = re.sub(r"[^a-z0-9]+", "-", chart.title.lower()).strip("-") or "chart"
        path = folder / f"{stem}.svg"
        for number in range(2, len(written) + 2):
            if path not in written:
                break
            path = folder / f"{stem}-{number}.svg"
        write_text(path, standalone(chart))
        written.append(path)
    return written


def standalone(chart: Drawn) -> str:
    """A chart of a page as a file: with its title above, and below it the names of its colors."""
    size = _VIEW.search(chart.svg)
    if size is None:
        raise ValueError(f"the chart {chart.title!r} has no size")
    width, height = float(size[1]), float(size[2])
    names, lines = _legend(chart.hues, width, _TITLE + height + 6)
    below = lines * _LINE + (6 if lines else 0)
    whole = f"{-_MARGIN} {-_MARGIN} {width + 2 * _MARGIN:g} {_TITLE + height + below + 2 * _MARGIN:g}"
    inner = chart.svg.replace("<svg ", f'<svg y="{_TITLE}" width="{width:g}" height="{height:g}" ', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="{whole}"><title>{escape(chart.title)}</title>'
        f"<style>{CHART_STYLE}</style>"
        f'<rect class="paper" x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" rx="6"/>'
        f'<text class="title" y="12">{escape(chart.title)}</text>{inner}{names}</svg>\n'
    )


def _legend(hues: Mapping[str, int], width: float, top: float) -> tuple[str, int]:
    """The names of colors in lines that fit, and how many lines."""
    parts: list[str] = []
    x, line = 0.0, 0
    for name, hue in hues.items():
        wide = 22 + _LETTER * len(name) + 10
        if x and x + wide > width:
            x, line = 0.0, line + 1
        y = top + line * _LINE + 9
        style = f"line{hue % HUES}{' dashed' if hue >= HUES else ''}"
        parts.append(f'<path class="line {style}" d="M{x:.1f} {y - 4:.1f}h16"/>')
        parts.append(f'<text x="{x + 21:.1f}" y="{y:.1f}">{escape(name)}</text>')
        x += wide
    return "".join(parts), line + 1 if parts else 0
