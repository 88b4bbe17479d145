"""Figure 4 drawn: Hit@k to the left and right neighbour, and Hit@k by distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lmk_eval.analyses.figures.style import COLOURS, GREY, MARKERS, legend_grid, panels, room_above
from lmk_eval.analyses.landmarks.analyse import DISTANCES, Captured
from lmk_eval.analyses.landmarks.hits import LEFT, RIGHT


def draw_landmarks(found: Sequence[Captured]) -> Figure:
    """Two panels; a colour and marker a model, solid to the left and dashed to the right."""
    figure, (left, right) = panels(2, height=2.1, room=0.7)
    _by_k(left, found)
    _by_distance(right, found)
    names = [
        Line2D([], [], color=COLOURS[number % len(COLOURS)], marker=MARKERS[number % len(MARKERS)], label=one.name)
        for number, one in enumerate(found)
    ]
    sides = [
        Line2D([], [], color="black", linestyle="-", label="left neighbour"),
        Line2D([], [], color="black", linestyle="--", label="right neighbour"),
        Line2D([], [], color=GREY, linestyle=":", label="guessing"),
    ]
    legend_grid(figure, [names, sides])
    return figure


def _by_k(axes: Axes, found: Sequence[Captured]) -> None:
    for number, one in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        ks = np.arange(1, len(one.chance) + 1)
        for side, dashes in ((LEFT, "-"), (RIGHT, "--")):
            values = 100 * one.mean("chunk", side)
            marker = MARKERS[number % len(MARKERS)]
            axes.plot(ks, values, color=colour, linestyle=dashes, marker=marker, markevery=4, clip_on=False)
    axes.plot(np.arange(1, len(found[0].chance) + 1), 100 * found[0].chance, color=GREY, linestyle=":")
    axes.axvline(found[0].k, color=GREY, linewidth=0.8)
    axes.annotate(f"k = {found[0].k}", (found[0].k, 0), (3, 2), ("data", "axes fraction"), "offset points",
                  color=GREY, fontsize=7, va="bottom")  # fmt: skip
    axes.set_xlim(1, max(len(one.chance) for one in found))
    sides = [one.mean("chunk", side) for one in found for side in (LEFT, RIGHT)]
    room_above(axes, 100 * np.concatenate(sides), 102)
    axes.set_xlabel("k")
    axes.set_ylabel("Hit@k (%)")
    axes.set_title("Neighbours of a landmark")


def _by_distance(axes: Axes, found: Sequence[Captured]) -> None:
    places = np.arange(len(DISTANCES))
    for number, one in enumerate(found):
        values = [100 * one.mean("chunk", distance)[one.k - 1] for distance in DISTANCES]
        colour = COLOURS[number % len(COLOURS)]
        half = len(DISTANCES) // 2
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(places[:half], values[:half], color=colour, linestyle="-", marker=marker)
        axes.plot(places[half:], values[half:], color=colour, linestyle="--", marker=marker)
    axes.axhline(100 * found[0].chance[found[0].k - 1], color=GREY, linestyle=":")
    axes.axvline(len(DISTANCES) / 2 - 0.5, color=GREY, linewidth=0.8)
    axes.annotate("LMK", (len(DISTANCES) / 2 - 0.5, 1), (3, -2), ("data", "axes fraction"), "offset points",
                  color=GREY, fontsize=7, va="top")  # fmt: skip
    axes.set_xticks(places, [f"{distance:+d}".replace("-", "−") for distance in DISTANCES])
    drawn = [100 * one.mean("chunk", distance)[one.k - 1] for one in found for distance in DISTANCES]
    room_above(axes, [*drawn, 100 * found[0].chance[found[0].k - 1]], 102, 0.25)
    axes.set_xlabel("Chunk, counted from the landmark")
    axes.set_ylabel(f"Hit@{found[0].k} (%)")
    axes.set_title("Chunks further away")
