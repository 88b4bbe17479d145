"""Figure 3 drawn: the histogram, and the share that each maximum length cuts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmk_eval.analyses.figures.style import bar_style, legend_below, line_style, markers, panels
from lmk_eval.analyses.figures.words import plain_number, token_span
from lmk_eval.analyses.lengths.count import Lengths, histogram


def draw_lengths(found: Sequence[Lengths], edges: Sequence[int], max_lengths: Sequence[int]) -> Figure:
    """Two panels: texts by length, and what is cut."""
    figure, (left, right) = panels(2, height=2.1)
    _bars(left, found, edges)
    _cuts(right, found, max_lengths)
    names = [one.name for one in found]
    legend_below(figure, left, names)
    if len(names) == 1:
        figure.suptitle(f"{names[0]}: {len(found[0].tokens):,} texts", fontsize=9)
    return figure


def _bars(axes: Axes, found: Sequence[Lengths], edges: Sequence[int]) -> None:
    width = 0.84 / len(found)
    places = np.arange(len(edges) - 1)
    for number, one in enumerate(found):
        shares = 100 * histogram(one.tokens, edges) / len(one.tokens)
        offset = (number - (len(found) - 1) / 2) * width
        bars = axes.bar(places + offset, shares, width, label=one.name, **bar_style(number))
        if len(found) == 1:
            texts = [_short(share) if share >= 0.05 else "" for share in shares]
            axes.bar_label(bars, texts, fontsize=7, padding=1)
    labels = [token_span(low, high) for low, high in pairwise(edges)]
    axes.set_xticks(places, labels, rotation=40, ha="right", rotation_mode="anchor")
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("Tokens a text")
    axes.set_ylabel("Texts (%)")


def _short(share: float) -> str:
    """A percentage in three characters."""
    return f"{share:.1f}" if share < 9.95 else f"{share:.0f}"


def _cuts(axes: Axes, found: Sequence[Lengths], max_lengths: Sequence[int]) -> None:
    signs = markers(len(found))
    places = np.arange(len(max_lengths))
    for number, one in enumerate(found):
        shares = [100 * one.cut(length)[0] for length in max_lengths]
        axes.plot(places, shares, marker=signs[number], label=one.name, clip_on=False, zorder=3, **line_style(number))
        if len(found) == 1:
            for place, share in zip(places, shares, strict=True):
                axes.annotate(
                    _short(share), (place, share), (0, 5), textcoords="offset points", ha="center", fontsize=7
                )
    axes.set_xticks(places, [plain_number(length) for length in max_lengths], rotation=40, ha="right",
                    rotation_mode="anchor")  # fmt: skip
    axes.set_ylim(0, 112)
    axes.margins(x=0.08)
    axes.set_xlabel("Maximum length (tokens)")
    axes.set_ylabel("Texts that are cut (%)")
