"""Spectra of singular values, and effective rank against uniformity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmk_eval.analyses.figures.style import COLOURS, legend_below, line_style, markers, panels, plain_ticks
from lmk_eval.analyses.geometry.analyse import Geometry


def draw_geometry(found: Sequence[Geometry]) -> Figure:
    """Two panels; a line and a marker of one colour a model."""
    figure, (left, right) = panels(2, height=2.0, room=0.5)
    signs = markers(len(found))
    for number, one in enumerate(found):
        cumulated = 100 * np.cumsum(one.spectrum)
        places = np.arange(1, len(cumulated) + 1)
        every = [index - 1 for index in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if index <= len(cumulated)]
        style = line_style(number)
        left.plot(places, cumulated, marker=signs[number], markevery=every, label=one.name, clip_on=False, **style)
    left.set_xscale("log", base=2)
    plain_ticks(left.xaxis)
    left.set_ylim(0, 102)
    left.set_xlim(left=1)
    left.set_xlabel("Largest singular values")
    left.set_ylabel("Share of their sum (%)")
    left.set_title("Spectrum of the embeddings")
    _points(right, found)
    legend_below(figure, left, [one.name for one in found])
    if len(found) == 1:
        figure.suptitle(found[0].name, fontsize=9)
    return figure


def _points(axes: Axes, found: Sequence[Geometry]) -> None:
    signs = markers(len(found))
    for number, one in enumerate(found):
        axes.plot(one.uniformity, one.rank, signs[number], color=COLOURS[number % len(COLOURS)], markersize=7)
    axes.set_ylim(0, 1.15 * max(one.rank for one in found))
    axes.margins(x=0.2)
    axes.set_xlabel("Uniformity (lower is more uniform)")
    axes.set_ylabel(f"Effective rank (of {max(one.dim for one in found)})")
    axes.set_title("Directions in use")
