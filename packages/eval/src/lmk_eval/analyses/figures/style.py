"""How all plots look: readable in print, in grey too. Made without pyplot, so that no global state is touched."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from lmk_eval.analyses.figures.words import plain_number

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's, which the colour-blind tell apart, the darker ones first."""
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (1, 1.2)),
    (0, (5, 1.4, 1, 1.4)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo")
GREY = "#666666"
WIDTH = 3.35
"""Of a figure, in inches: one column of a paper in two, so that nothing has to shrink in print, or on a phone."""
_ENTRY, _LETTER = 0.52, 0.062
"""Inches of a legend's entry without its name, and of a letter of the name."""
_PARAMETERS: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.handletextpad": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "hatch.linewidth": 0.6,
    "figure.dpi": 200,
    "savefig.dpi": 300,
    "svg.fonttype": "path",  # looks the same where the font is not installed
    "svg.hashsalt": "lmk",  # the same figure gives the same bytes
}


@contextmanager
def print_style() -> Generator[None]:
    """Our settings inside, over matplotlib's own defaults whatever the user's ``matplotlibrc`` says."""
    plain = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    settings: Any = {**plain, **_PARAMETERS}
    with mpl.rc_context(settings):
        yield


def panels(number: int, *, height: float = 2.2, room: float = 0.4, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure with this many panels, one below the other.

    Args:
        number: of panels.
        height: of each, in inches.
        room: for what stands above and below all of them (title, legend), in inches.
        options: of matplotlib's ``subplots``.
    """
    figure = Figure(figsize=(WIDTH, height * number + room), layout="constrained")
    axes = figure.subplots(number, 1, squeeze=False, **options).ravel()
    return figure, list(axes)


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the series with this number."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def bar_style(index: int) -> dict[str, Any]:
    """Colour and hatch of the bars of the series with this number."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "hatch": HATCHES[index % len(HATCHES)],
        "edgecolor": "white",
        "linewidth": 0.4,
    }


def markers(number: int) -> list[str]:
    """A marker for each of so many series."""
    return list(islice(cycle(MARKERS), number))


def legend_below(figure: Figure, axes: Axes, names: Sequence[str]) -> None:
    """One legend under all panels, where there is more than one series."""
    if len(names) < 2:
        return
    handles, labels = axes.get_legend_handles_labels()
    kept = [(handle, label) for handle, label in zip(handles, labels, strict=True) if label in names]
    columns = min(len(kept), _columns(names))
    figure.legend(*zip(*kept, strict=True), loc="outside lower center", ncols=columns, columnspacing=1.2)


def legend_grid(figure: Figure, rows: Sequence[Sequence[Any]]) -> None:
    """A legend under all panels whose lines are these rows of handles. Long rows go on in the next line."""
    columns = min(max(map(len, rows)), _columns([str(one.get_label()) for row in rows for one in row]))
    lines = [list(row[start : start + columns]) for row in rows for start in range(0, len(row), columns)]
    blank = Line2D([], [], linestyle="none", label=" ")
    filled = [line + [blank] * (columns - len(line)) for line in lines]
    # matplotlib fills a legend column by column.
    handles = [line[column] for column in range(columns) for line in filled]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, columnspacing=1.2)


def _columns(names: Sequence[str]) -> int:
    """Columns of a legend of these names that a figure is wide enough for."""
    return max(1, min(4, int(WIDTH / (_ENTRY + _LETTER * max(map(len, names))))))


def room_above(axes: Axes, values: Iterable[float], most: float, share: float = 0.12) -> None:
    """Let the vertical axis begin at 0 and end a little above the largest value, at ``most`` at most."""
    largest = max((value for value in values if value == value), default=most)
    axes.set_ylim(0, min(most, largest * (1 + share)) or most)


def plain_ticks(axis: Any) -> None:
    """Numbers as people write them (0.5, 2, 8,192) on a logarithmic axis."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
