"""Extra tokens and extra seconds by granularity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmk_eval.analyses.figures import Row
from lmk_eval.analyses.figures.style import GREY, legend_below, line_style, markers, panels
from lmk_eval.analyses.figures.words import plain_number

_LEAST = 1.0
"""Percent that a vertical axis spans at least."""


def draw_cost(rows: Sequence[Row]) -> Figure:
    """Panels for tokens, for text that is lost where there is any, and for seconds where they were measured."""
    wanted = [("extra_tokens", "More tokens (%)", "Tokens")]
    if any(_number(row, "text_lost") > 0 for row in rows):
        wanted.append(("text_lost", "Text lost (%)", "Text that no longer fits"))
    if "seconds" in rows[0]:
        wanted.append(("extra_seconds", "More seconds (%)", "Seconds"))
    figure, axes = panels(len(wanted), height=1.75, room=0.5)
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    for panel, (key, label, title) in zip(axes, wanted, strict=True):
        _panel(panel, rows, names, key)
        panel.set_ylabel(label)
        panel.set_title(title)
    legend_below(figure, axes[0], names)
    if len(names) == 1:
        figure.suptitle(f"Landmarks beside none: {names[0]}", fontsize=9)
    return figure


def _panel(axes: Axes, rows: Sequence[Row], names: Sequence[str], key: str) -> None:
    signs = markers(len(names))
    sizes = sorted({int(_number(row, "granularity")) for row in rows if row["granularity"] is not None})
    for number, name in enumerate(names):
        own = [row for row in rows if row["series"] == name and row["granularity"] is not None]
        own.sort(key=lambda row: _number(row, "granularity"))
        places = [sizes.index(int(_number(row, "granularity"))) for row in own]
        values = np.array([100 * _number(row, key) for row in own])
        style = line_style(number)
        if f"{key}_least" in own[0]:
            least = values - [100 * _number(row, f"{key}_least") for row in own]
            most = np.array([100 * _number(row, f"{key}_most") for row in own]) - values
            axes.errorbar(places, values, [least, most], fmt="none", ecolor=style["color"], capsize=2, linewidth=0.9)
        axes.plot(places, values, marker=signs[number], label=name, **style)
    axes.axhline(0, color=GREY, linewidth=0.8)
    low, high = axes.get_ylim()
    if high - low < _LEAST:  # nothing but noise, or no difference at all: not to be blown up
        axes.set_ylim(min(low, -0.1 * _LEAST), max(high, 0.9 * _LEAST))
    axes.set_xticks(range(len(sizes)), [plain_number(size) for size in sizes])
    axes.margins(x=0.1)
    axes.set_xlabel("Tokens between landmarks")


def _number(row: Row, key: str) -> float:
    value: Any = row[key]
    return 0.0 if value is None else float(value)
