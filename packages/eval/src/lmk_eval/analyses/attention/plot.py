"""Figure 2 drawn: attention by position, a panel for each maximum length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmk_eval.analyses.attention.profile import By, Curve
from lmk_eval.analyses.figures.style import GREY, MARKERS, legend_below, line_style, panels, plain_ticks
from lmk_eval.analyses.figures.words import plain_number

_EVERY = 6
"""Bins from one marker of a line to the next."""


def draw_attention(curves: Sequence[Curve], by: By) -> Figure:
    """Curves of one maximum length share a panel; uniform attention is the line at 1."""
    lengths = list(dict.fromkeys(curve.max_length for curve in curves))
    names = list(dict.fromkeys(curve.name for curve in curves))
    figure, axes = panels(len(lengths), height=1.75, room=0.6, sharey=True)
    drawn = np.concatenate([curve.mean[~np.isnan(curve.mean)] for curve in curves])
    logarithmic = bool((drawn > 0).all()) and drawn.max() / drawn.min() > 4
    for length, panel in zip(lengths, axes, strict=True):
        for curve in curves:
            if curve.max_length == length:
                _curve(panel, curve, by, names.index(curve.name))
        panel.axhline(1, color=GREY, linewidth=0.8)
        extent = length if by == "tokens" else 1
        panel.set_xticks([extent * quarter / 4 for quarter in range(5)])
        plain_ticks(panel.xaxis)
        panel.set_title(f"Encoded at {plain_number(length)} tokens{_local(curves, length)}")
        if logarithmic:
            panel.set_yscale("log", base=2)
            plain_ticks(panel.yaxis)
        else:
            panel.set_ylim(bottom=0)
    axes[-1].set_xlabel("Position (tokens)" if by == "tokens" else "Position (0 begin, 1 end)")
    figure.supylabel(f"Attention (multiple of uniform{', log scale' if logarithmic else ''})", fontsize=9)
    legend_below(figure, axes[0], names)
    if len(names) == 1:
        figure.suptitle(names[0], fontsize=9)
    return figure


def _local(curves: Sequence[Curve], length: int) -> str:
    """What the title adds where a layer does not see the whole document."""
    windows = sorted({curve.window for curve in curves if curve.max_length == length and curve.window is not None})
    return "".join(f"\n(a local layer: {window} tokens either side)" for window in windows)


def _curve(panel: Axes, curve: Curve, by: By, number: int) -> None:
    bins = curve.density.shape[1]
    width = (curve.max_length if by == "tokens" else 1) / bins
    held = curve.documents > 0
    middles = (np.flatnonzero(held) + 0.5) * width
    mean, error = curve.mean[held], curve.error[held]
    style = line_style(number)
    # Dashes of six lines are hard to tell apart in grey; markers that do not stand above each other help.
    every = (2 * number % _EVERY, _EVERY)
    panel.plot(middles, mean, label=curve.name, marker=MARKERS[number % len(MARKERS)], markevery=every, **style)
    low = np.maximum(mean - error, mean / 2)  # a logarithmic axis has no room for zero
    panel.fill_between(middles, low, mean + error, color=style["color"], alpha=0.2, linewidth=0)
    panel.set_xlim(0, width * bins)
