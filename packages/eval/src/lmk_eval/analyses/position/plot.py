"""NDCG@10 by group: the place of the evidence, the length of the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmk_eval.analyses.figures import Row
from lmk_eval.analyses.figures.style import GREY, legend_below, line_style, markers, panels, room_above

_TITLES = {
    "": ("Where the evidence stands", "Place in the document (0 begin, 1 end)"),
    "length": ("How long the document is", "Tokens of the document"),
}


def draw_position(names: Sequence[str], tables: Mapping[str, Sequence[Row]]) -> Figure:
    """A panel a table; bars are standard errors, the numbers above say how many queries stand behind a point."""
    figure, axes = panels(len(tables), height=2.3, sharey=True)
    for panel, (table, rows) in zip(axes, tables.items(), strict=True):
        title, label = _TITLES[table]
        _panel(panel, names, rows)
        panel.set_title(f"{title} (above: queries)")
        panel.set_ylabel("NDCG@10")
        fractions = all("–" in str(row["group"]) for row in rows)
        panel.set_xlabel(label if table or fractions else "Place in the document")
    drawn: list[Any] = [row for rows in tables.values() for row in rows]
    room_above(axes[0], [row["ndcg_at_10"] + (row["standard_error"] or 0) for row in drawn], 1.15, 0.15)
    legend_below(figure, axes[0], names)
    if len(names) == 1:
        figure.suptitle(names[0], fontsize=9)
    return figure


def _panel(axes: Axes, names: Sequence[str], rows: Sequence[Row]) -> None:
    labels = list(dict.fromkeys(str(row["group"]) for row in rows))
    signs = markers(len(names))
    for number, name in enumerate(names):
        own: list[Any] = [row for row in rows if row["series"] == name]
        shift = (number - (len(names) - 1) / 2) * 0.05
        places = np.arange(len(own)) + shift
        values = [row["ndcg_at_10"] for row in own]
        errors = [row["standard_error"] or 0 for row in own]
        style = line_style(number)
        axes.errorbar(places, values, errors, fmt="none", ecolor=style["color"], capsize=2, linewidth=0.9)
        axes.plot(places, values, marker=signs[number], label=name, **style)
    axes.set_xticks(range(len(labels)), labels, rotation=40, ha="right", rotation_mode="anchor")
    axes.margins(x=0.06)
    for place, label in enumerate(labels):
        count = next(row["queries"] for row in rows if row["group"] == label)
        axes.annotate(f"{count}", (place, 1), (0, -1), ("data", "axes fraction"), "offset points", fontsize=7,
                      ha="center", va="top", color=GREY)  # fmt: skip
