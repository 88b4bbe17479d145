"""The sections about quality: the table, bars with intervals, length and place, and curves of training."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmk_experiments.report.charts import Bar, Series, bars, lines
from lmk_experiments.report.gather import Curve, Gathered
from lmk_experiments.report.parts import Cell, data_table, figure, legend, paragraph, section
from lmk_experiments.report.profiles import Line, Profile
from lmk_experiments.tables.formats.html import table_section
from lmk_experiments.tables.formats.layout import MARK, show
from lmk_experiments.tables.table import TableCell

_SAMPLED = 12
"""Steps of a curve that its table of numbers shows."""


def table_part(gathered: Gathered) -> str:
    """The grid's table, with its marks and what they mean; nothing where it has no rows."""
    return "" if gathered.table is None else section("table", "Results", table_section(gathered.table, None))


@dataclass(frozen=True)
class Drawn:
    """A chart, the colors of its lines (none where its labels stand in it), and its numbers as a table."""

    title: str
    svg: str
    hues: Mapping[str, int]
    numbers: str

    @property
    def figure(self) -> str:
        """The chart on the page."""
        return figure(self.title, self.svg, self.numbers)


def bars_drawn(gathered: Gathered) -> list[Drawn]:
    """A chart for each column with a value."""
    table = gathered.table
    if table is None:
        return []
    charts = []
    for at, column in enumerate(table.columns):
        listed, numbers = [], []
        for row in table.rows:
            cell = row.cells[at]
            shown = show(column, cell, table)
            value = f"{shown.value}{MARK if shown.marked else ''}" if shown.value else shown.state
            listed.append(Bar(row.label, cell.value, value, cell.interval, gathered.hues[row.label]))
            numbers.append([row.label, shown.value or shown.state, *_tested(cell)])
        if any(bar.value is not None for bar in listed):
            title = ", ".join(filter(None, (*column.groups, column.title, column.detail, column.unit)))
            best = max((bar for bar in listed if bar.value is not None), key=lambda bar: bar.value or 0.0)
            said = f"Bars of {len(listed)} rows, each with its 95% interval. The longest is {best.label}, {best.text}."
            svg = bars(f"bars{at}", title, said, listed)
            charts.append(Drawn(title, svg, {}, data_table(title, ["row", "value", *_TESTED], numbers)))
    return charts


_TESTED = ("low", "high", "difference low", "difference high", "p", "p adjusted")


def _tested(cell: TableCell) -> list[Cell]:
    """The interval of a value, that of its difference to the baseline, and the test's p-values."""
    test, (low, high) = cell.comparison, cell.interval or (None, None)
    under, over = (test.interval if test else None) or (None, None)
    return [low, high, under, over, test.p if test else None, test.adjusted if test else None]


def bars_part(gathered: Gathered) -> str:
    """A chart for each column with a value; nothing where the grid has no rows."""
    if gathered.table is None:
        return ""
    charts = bars_drawn(gathered)
    if not charts:
        return section("bars", "Values with intervals", paragraph("No evaluation is finished yet."))
    known = any(cell.interval for row in gathered.table.rows for cell in row.cells)
    said = (
        "Whiskers: 95% bootstrap interval over queries, drawn within each task. Rows whose intervals overlap may still "
        f"differ significantly, for they answer the same queries: {MARK} is the paired test's."
        if known
        else "Without intervals: no scores by query are kept."
    )
    return section("bars", "Values with intervals", paragraph(said), _grid_of(charts))


def _grid_of(charts: Sequence[Drawn]) -> str:
    return f'<div class="charts">{"".join(one.figure for one in charts)}</div>'


def profiles_drawn(gathered: Gathered) -> list[Drawn]:
    """Of each profile the values, and the differences to the baseline where they are known."""
    charts = []
    for index, profile in enumerate(gathered.profiles):
        charts.append(_values(index, profile, _hues(gathered, profile)))
        if any(cell is not None and cell.difference is not None for line in profile.lines for cell in line.cells):
            charts.append(_differences(index, profile, _hues(gathered, profile)))
    return charts


def _hues(gathered: Gathered, profile: Profile) -> dict[str, int]:
    """Colors of a profile's lines: the rows' own, or new ones for lines that are no rows."""
    known = gathered.hues
    return {line.name: known.get(line.name, at) for at, line in enumerate(profile.lines)}


def profiles_part(gathered: Gathered) -> str:
    """Quality against length and place; nothing where no suite is of that kind."""
    charts = profiles_drawn(gathered)
    if not charts:
        return ""
    hues: dict[str, int] = {}
    for one in charts:
        hues |= one.hues
    said = [
        "Main score of each task, or the score of a group of its queries, x 100; the mean over seeds. Whiskers: one "
        "standard deviation over seeds to either side."
    ]
    if any(_DIFFERENCE in one.title for one in charts):
        said.append(
            "Charts of differences: each row minus the baseline, with the 95% bootstrap interval of that difference "
            "over queries, which both answer (not corrected for many comparisons; the table's marks are)."
        )
    heading = "Quality against length and place of the evidence"
    return section("profiles", heading, paragraph(" ".join(said)), legend(hues), _grid_of(charts))


_DIFFERENCE = ", difference to "


def _values(index: int, profile: Profile, hues: Mapping[str, int]) -> Drawn:
    listed = []
    for line in profile.lines:
        points, bounds = [], []
        for place, cell in enumerate(line.cells):
            if cell is not None and cell.value is not None:
                points.append((float(place), cell.value))
                spread = cell.deviation
                bounds.append(None if spread is None else (cell.value - spread, cell.value + spread))
        if points:
            listed.append(Series(line.name, points, hues[line.name], bounds=bounds if any(bounds) else ()))
    said = f"Lines of {len(listed)} rows over {profile.axis}: {', '.join(profile.places)}."
    svg = lines(f"profile{index}", profile.title, said, listed, x_label=profile.axis, places=profile.places)
    numbers: list[list[Cell]] = [
        [line.name, *(cell.value if cell is not None else None for cell in line.cells)] for line in profile.lines
    ]
    return Drawn(profile.title, svg, hues, data_table(profile.title, ["row", *profile.places], numbers))


def _differences(index: int, profile: Profile, hues: Mapping[str, int]) -> Drawn:
    listed, numbers = [], []
    for line in profile.lines:
        points, bounds = [], []
        for place, cell in enumerate(line.cells):
            if cell is not None and cell.difference is not None:
                points.append((float(place), cell.difference))
                bounds.append(cell.comparison.interval if cell.comparison else None)
                numbers.append([line.name, profile.places[place], cell.difference, *_tested(cell)[2:]])
        if points:
            listed.append(Series(line.name, points, hues[line.name], bounds=bounds if any(bounds) else ()))
    title = f"{profile.title}{_DIFFERENCE}{_baseline(profile.lines)}"
    said = f"Differences of {len(listed)} rows to the baseline over {profile.axis}: {', '.join(profile.places)}."
    svg = lines(f"difference{index}", title, said, listed, x_label=profile.axis, places=profile.places, from_zero=True)
    return Drawn(
        title, svg, hues, data_table(title, ["row", profile.axis, "difference", *_TESTED[2:]], numbers, labels=2)
    )


def _baseline(listed: Sequence[Line]) -> str:
    names = [line.name for line in listed if line.baseline]
    return names[0] if len(names) == 1 else "the baseline"


def curves_drawn(gathered: Gathered) -> list[Drawn]:
    """A chart for each metric of the trainings, with every seed."""
    hues = {one.row: gathered.hues[one.row] for one in gathered.record.trainings}
    return [_metric(index, *item, hues) for index, item in enumerate(gathered.curves.items())]


def curves_part(gathered: Gathered) -> str:
    """Curves of training, a chart for each metric, with every seed."""
    if not gathered.record.trainings:
        return ""
    charts = curves_drawn(gathered)
    if not charts:
        return section("curves", "Training", paragraph("No training has reported a value yet."))
    seeds = len({one.seed for one in gathered.record.trainings})
    said = (
        f"Thick: the mean over {seeds} seeds, at steps that all of them reached; faint: each seed." if seeds > 1 else ""
    )
    return section("curves", "Training", *([paragraph(said)] if said else []), legend(charts[0].hues), _grid_of(charts))


def _metric(index: int, metric: str, curves: Sequence[Curve], hues: Mapping[str, int]) -> Drawn:
    listed: list[Series] = []
    numbers: list[list[Cell]] = []
    for name, hue in hues.items():
        own = [curve for curve in curves if curve.row == name]
        if len(own) > 1:
            listed += [Series(f"{name}, seed {one.seed}", one.points, hue, faint=True) for one in own]
        if own:
            mean = _mean(own)
            listed.append(Series(name, mean, hue))
            numbers += [[name, f"{step:,.0f}", value] for step, value in _sampled(mean)]
    said = f"{metric} over steps for {len({one.row for one in curves})} rows. The last values are in the table below."
    single = all(len(one.points) == 1 for one in listed)
    svg = lines(f"curve{index}", metric, said, listed, x_label="step") if not single else _last(index, metric, listed)
    return Drawn(metric, svg, hues, data_table(metric, ["row", "step", "value"], numbers))


def _last(index: int, metric: str, listed: Sequence[Series]) -> str:
    """Of a metric with one value a training, bars."""
    shown = [
        Bar(one.name, one.points[-1][1], f"{one.points[-1][1]:.4g}", None, one.hue) for one in listed if not one.faint
    ]
    return bars(f"curve{index}", metric, f"The only value of {metric} of each row, as bars.", shown)


def _mean(curves: Sequence[Curve]) -> list[tuple[float, float]]:
    held = [dict(curve.points) for curve in curves]
    steps = [step for step in held[0] if all(step in one for one in held)]
    return [(step, statistics.fmean(one[step] for one in held)) for step in steps] or list(curves[0].points)


def _sampled(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(points) <= _SAMPLED:
        return list(points)
    return [points[round(index * (len(points) - 1) / (_SAMPLED - 1))] for index in range(_SAMPLED)]
