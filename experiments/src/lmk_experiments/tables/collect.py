"""From a grid's rows and scores to a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lmk_experiments.configs import explain
from lmk_experiments.elsewhere import ABSENT, is_elsewhere, rows_of
from lmk_experiments.records import GridRecord, RowRecord, load_grid
from lmk_experiments.tables.arrange import blocks, compared, pivoted
from lmk_experiments.tables.given import default_spec, elsewhere_notes, grid_spec, suites_of
from lmk_experiments.tables.kept import Kept
from lmk_experiments.tables.published import Published
from lmk_experiments.tables.shares import cell_shares, stamps
from lmk_experiments.tables.significance import Comparing, tested
from lmk_experiments.tables.source import Origin, Source, load_source, tasks_of
from lmk_experiments.tables.spec import Column, Row, TableSpec, TableSpecError
from lmk_experiments.tables.table import Significance, Table, TableCell, TableRow

_URGENCY = (
    "pre-training failed",
    "training failed",
    "failed",
    "pre-training",
    "training",
    "stopped",
    "running",
    "preempted",
    "queued",
    "planned",
)
"""Of the seeds' states the first of these is shown."""


def grid_table(
    root: Path,
    grid: str,
    *,
    spec: TableSpec | None = None,
    origin: Origin = "records",
    uri: str | None = None,
    published: Published | None = None,
    tests: Comparing | None = None,
) -> Table:
    """The table of ``grid`` as it was last run under ``root``.

    Args:
        spec: what to show; by default the grid's own, else one column a task.
        origin: ``records``, or ``mlflow`` (call ``mirror.sync`` first).
        published: numbers to show beside ours.
        tests: as of ``collect``.

    Raises:
        ValueError: no such grid was run here.
        TableSpecError: the spec asks for what the grid has not got.
        StoreError: the MLflow store cannot be used.
    """
    record = load_grid(root, grid)
    return collect(record, load_source(root, record, origin, uri=uri), spec, published, tests=tests)


def collect(
    grid: GridRecord,
    source: Source,
    spec: TableSpec | None = None,
    published: Published | None = None,
    *,
    tests: Comparing | None = None,
) -> Table:
    """The rows of ``grid`` filled from ``source``.

    Seeds of a row become its mean and sample standard deviation. A cell without a score holds its state, never a zero.

    Args:
        tests: where given, rows are tested against the baseline query by query, and what is significant is marked.

    Raises:
        TableSpecError: an unknown row, suite, task or metric; the message lists the valid ones.
    """
    spec = spec or grid_spec(grid) or default_spec(grid, source)
    _check_columns(grid, source, spec)
    chosen = _chosen_rows(grid, spec)
    rows = [_row(spec, source, row, seeds, published) for row, seeds in chosen]
    said = None
    if tests is not None:
        seeds = [seeds for _, seeds in chosen]
        shares, kept = cell_shares(spec, source, seeds), Kept(source.root / "grids" / Path(grid.name).name)
        rows, said = tested(
            spec, rows, blocks(spec, rows), shares, tests, kept, lambda at: stamps(spec, source, seeds, at)
        )
    title = spec.title or grid.title or grid.name
    table = assemble(spec, grid.name, title, rows, source.name, published, said)
    return replace(table, notes=(*table.notes, *elsewhere_notes(grid, spec)))


def assemble(
    spec: TableSpec,
    grid: str,
    title: str,
    rows: Sequence[TableRow],
    source: str,
    published: Published | None = None,
    significance: Significance | None = None,
) -> Table:
    """The table of filled rows: compared, then pivoted where the spec says so.

    Raises:
        TableSpecError: the labels do not fit the pivot.
    """
    table = Table(
        grid=grid,
        title=title,
        columns=spec.columns,
        rows=compared(spec, rows),
        differences=spec.differences,
        notes=spec.notes,
        source=source,
        labels=spec.labels,
        within=spec.within or "",
        published=_said(published),
        significance=significance,
    )
    return pivoted(table, spec)


def published_table(spec: TableSpec, published: Published, grid: str, title: str) -> Table:
    """The published numbers alone, as ``spec`` prints them; nothing has to be run.

    Averages are as printed where they are, else those of the published columns. A cell without a number says so.

    Raises:
        TableSpecError: the labels do not fit the pivot.
    """
    rows = []
    for row in spec.rows if spec.rows is not None else tuple(Row(row=name) for name in published.rows):
        values = published_values(spec, published, row.row)
        cells = tuple(TableCell(value, state="" if value is not None else "not published") for value in values)
        rows.append(filled_row(row, cells, baseline=bool(row.baseline)))
    return assemble(spec, grid, spec.title or title, rows, _said(published))


def published_values(spec: TableSpec, published: Published, row: str) -> list[float | None]:
    """What was published for a row, column by column; an average as printed, else that of its published columns."""
    values = [published.value(row, column) for column in spec.columns]
    for index, column in enumerate(spec.columns):
        parts = [values[spec.averaged(name)] for name in column.mean_of or ()]
        numbers = [part for part in parts if part is not None]
        if values[index] is None and parts and len(numbers) == len(parts):
            values[index] = statistics.fmean(numbers)
    return values


def filled_row(row: Row, cells: tuple[TableCell, ...], *, baseline: bool) -> TableRow:
    """A row of the spec with its cells."""
    label = row.row if row.title is None else row.title
    chosen = baseline if row.baseline is None else row.baseline
    return TableRow(row.row, label, chosen, cells, row.labels or (), row.rule)


def _said(published: Published | None) -> str:
    if published is None:
        return ""
    if not published.values:
        return f"{published.name} (nothing was published)"
    return f"{published.name} ({'; '.join(published.sources)})" if published.sources else published.name


def _chosen_rows(grid: GridRecord, spec: TableSpec) -> list[tuple[Row, list[RowRecord]]]:
    seeds: dict[str, list[RowRecord]] = {}
    for row in (*grid.rows, *rows_of(grid)):
        seeds.setdefault(row.row, []).append(row)
    chosen = spec.rows if spec.rows is not None else tuple(Row(row=name) for name in seeds)
    for index, row in enumerate(chosen):
        if row.row not in seeds:
            place = f"rows[{index}]"
            raise TableSpecError(
                f"{place}: grid {grid.name!r} has no row {row.row!r}; {explain(row.row, seeds)}", place
            )
    return [(row, seeds[row.row]) for row in chosen]


def _check_columns(grid: GridRecord, source: Source, spec: TableSpec) -> None:
    """Refuse names that no evaluation knows; what is merely not there yet is a state, not an error."""
    for index, column in enumerate(spec.columns):
        if column.suite is None:
            continue
        suites = suites_of(grid)
        place = f"columns[{index}]"
        if column.suite not in suites:
            message = f"{place}.suite: grid {grid.name!r} does not evaluate {column.suite!r}"
            raise TableSpecError(f"{message}; {explain(column.suite, suites)}", f"{place}.suite")
        tasks = source.tasks.get(column.suite, [])
        for task in tasks_of(column, source):
            if tasks and task not in tasks:
                message = f"{place}.task: suite {column.suite!r} has no task {task!r}"
                raise TableSpecError(f"{message}; {explain(task, tasks)}", f"{place}.task")
        metrics = _metrics(grid, source, column)
        if metrics and column.metric not in metrics:
            message = f"{place}.metric: no task of {column.name!r} has metric {column.metric!r}"
            raise TableSpecError(f"{message}; {explain(column.metric, metrics)}", f"{place}.metric")


def _metrics(grid: GridRecord, source: Source, column: Column) -> list[str]:
    evaluations = [row.evaluations.get(column.suite or "", "") for row in (*grid.rows, *rows_of(grid))]
    scores = [source.scores[identity] for identity in evaluations if identity in source.scores]
    return sorted({name for held in scores for task in tasks_of(column, source) for name in held.get(task, {})})


def _row(spec: TableSpec, source: Source, row: Row, seeds: list[RowRecord], published: Published | None) -> TableRow:
    by_column = [[_score(column, source, seed) for seed in seeds] for column in spec.columns]
    for column, outcomes in zip(spec.columns, by_column, strict=True):
        if column.mean_of is not None:
            averaged = [by_column[spec.averaged(name)] for name in column.mean_of]
            outcomes[:] = [_mean(list(parts)) for parts in zip(*averaged, strict=True)]
    cells = tuple(map(_over_seeds, by_column))
    if published is not None:
        printed = published_values(spec, published, row.row)
        cells = tuple(replace(cell, published=value) for cell, value in zip(cells, printed, strict=True))
    return filled_row(row, cells, baseline=any(seed.baseline for seed in seeds))


def _score(column: Column, source: Source, row: RowRecord) -> float | str:
    """The score of one seed in the column's units, or the state of its evaluation."""
    if column.suite is None:
        return ""
    identity = row.evaluations.get(column.suite)
    if identity is None:
        return "not evaluated"
    if identity not in source.scores:
        return source.states[identity]
    scores = source.scores[identity]
    absent = ABSENT if is_elsewhere(identity) else "no score"
    values: list[float | str] = [
        scores[task][column.metric] if column.metric in scores.get(task, {}) else absent
        for task in tasks_of(column, source)
    ]
    mean = _mean(values)
    return mean if isinstance(mean, str) else mean * column.scale


def _mean(values: Sequence[float | str]) -> float | str:
    """The mean, or the first state where one value is missing: a mean of the rest would not be comparable."""
    missing = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if not isinstance(value, str)]
    return missing[0] if missing else statistics.fmean(numbers) if numbers else "no score"


def _over_seeds(outcomes: list[float | str]) -> TableCell:
    values = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    states = sorted((outcome for outcome in outcomes if isinstance(outcome, str)), key=_urgency)
    return TableCell(
        value=statistics.fmean(values) if values else None,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        seeds=len(values),
        planned=len(outcomes),
        state=states[0] if states else "",
    )


def _urgency(state: str) -> int:
    return next((rank for rank, start in enumerate(_URGENCY) if state.startswith(start)), len(_URGENCY))
