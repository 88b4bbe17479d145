"""The sections about quality: the table, bars with intervals, length and place, and curves of training."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from lmk_experiments.report.charts import Bar, Series, bars, lines
from lmk_experiments.report.gather import Curve, Gathered, Profile
from lmk_experiments.report.parts import Cell, data_table, figure, legend, paragraph, section
from lmk_experiments.tables.formats.html import table_section
from lmk_experiments.tables.formats.layout import MARK, show

_SAMPLED = 12
"""Steps of a curve that its table of numbers shows."""


def table_part(gathered: Gathered) -> str:
    """The grid's table, with its marks and what they mean; nothing where it has no rows."""
    return "" if gathered.table is None else section("table", "Results", table_section(gathered.table, None))


def bars_part(gathered: Gathered) -> str:
    """A chart for each column with a value; nothing where the grid has no rows."""
    table = gathered.table
    if table is None:
        return ""
    charts = []
    for at, column in enumerate(table.columns):
        listed, numbers = [], []
        for row in table.rows:
            cell = row.cells[at]
            shown = show(column, cell, table)
            value = f"{shown.value}{MARK if shown.marked else ''}" if shown.value else shown.state
            listed.append(Bar(row.label, cell.value, value, cell.interval, gathered.hues[row.label]))
            test, (low, high) = cell.comparison, cell.interval or (None, None)
            under, over = (test.interval if test else None) or (None, None)
            p = (test.p, test.adjusted) if test else (None, None)
            numbers.append([row.label, shown.value or shown.state, low, high, under, over, *p])
        if any(bar.value is not None for bar in listed):
            title = ", ".join(filter(None, (*column.groups, column.title, column.detail, column.unit)))
            best = max((bar for bar in listed if bar.value is not None), key=lambda bar: bar.value or 0.0)
            said = f"Bars of {len(listed)} rows, each with its 95% interval. The longest is {best.label}, {best.text}."
            header = ["row", "value", "low", "high", "difference low", "difference high", "p", "p adjusted"]
            svg = bars(f"bars{at}", title, said, listed)
            charts.append(figure(title, svg, data_table(title, header, numbers)))
    if not charts:
        return section("bars", "Values with intervals", paragraph("No evaluation is finished yet."))
    known = any(cell.interval for row in table.rows for cell in row.cells)
    said = (
        "Whiskers: 95% bootstrap interval over queries, drawn within each task. Rows whose intervals overlap may still "
        f"differ significantly, for they answer the same queries: {MARK} is the paired test's."
        if known
        else "Without intervals: no scores by query are kept."
    )
    return section("bars", "Values with intervals", paragraph(said), f'<div class="charts">{"".join(charts)}</div>')


def profiles_part(gathered: Gathered) -> str:
    """Quality against length and place; nothing where no suite is of that kind."""
    if not gathered.profiles:
        return ""
    hues = {name: gathered.hues[name] for name in gathered.profiles[0].values}
    charts = [_profile(index, profile, hues) for index, profile in enumerate(gathered.profiles)]
    said = "Main score of each task, or the score of a group of its queries, x 100; the mean over seeds."
    inner = (paragraph(said), legend(hues), f'<div class="charts">{"".join(charts)}</div>')
    return section("profiles", "Quality against length and place of the evidence", *inner)


def _profile(index: int, profile: Profile, hues: Mapping[str, int]) -> str:
    listed = [
        Series(name, [(float(place), value) for place, value in enumerate(values) if value is not None], hues[name])
        for name, values in profile.values.items()
    ]
    there = [one for one in listed if one.points]
    said = f"Lines of {len(there)} rows over {profile.axis}: {', '.join(profile.places)}."
    svg = lines(f"profile{index}", profile.title, said, there, x_label=profile.axis, places=profile.places)
    numbers: list[list[Cell]] = [[name, *values] for name, values in profile.values.items()]
    return figure(profile.title, svg, data_table(profile.title, ["row", *profile.places], numbers))


def curves_part(gathered: Gathered) -> str:
    """Curves of training, a chart for each metric, with every seed."""
    if not gathered.record.trainings:
        return ""
    if not gathered.curves:
        return section("curves", "Training", paragraph("No training has reported a value yet."))
    hues = {one.row: gathered.hues[one.row] for one in gathered.record.trainings}
    charts = [_metric(index, *item, hues) for index, item in enumerate(gathered.curves.items())]
    seeds = len({one.seed for one in gathered.record.trainings})
    said = (
        f"Thick: the mean over {seeds} seeds, at steps that all of them reached; faint: each seed." if seeds > 1 else ""
    )
    inner = ([paragraph(said)] if said else []) + [legend(hues), f'<div class="charts">{"".join(charts)}</div>']
    return section("curves", "Training", *inner)


def _metric(index: int, metric: str, curves: Sequence[Curve], hues: Mapping[str, int]) -> str:
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
    return figure(metric, svg, data_table(metric, ["row", "step", "value"], numbers))


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
