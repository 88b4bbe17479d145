"""What a grid's record says of its table: the spec, the baseline, the suites, and what is noted under it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from lmk_experiments.records import GridRecord
from lmk_experiments.tables.source import Source
from lmk_experiments.tables.spec import Column, TableSpec, TableSpecError


def grid_spec(grid: GridRecord) -> TableSpec | None:
    """The spec that the grid was run with, or ``None``.

    Raises:
        TableSpecError: what was recorded is no spec.
    """
    if grid.table is None:
        return None
    try:
        return TableSpec.model_validate(grid.table)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, ("table", *first["loc"])))
        raise TableSpecError(f"grid {grid.name!r}: {place}: {first['msg']}", place) from None


def has_baseline(grid: GridRecord) -> bool:
    """Whether some row, by the grid or by its table, is one that others are compared with."""
    spec = grid_spec(grid)
    listed = spec.rows if spec is not None and spec.rows is not None else ()
    return any(row.baseline for row in grid.rows) or any(row.baseline for row in listed)


def default_spec(grid: GridRecord, source: Source) -> TableSpec:
    """One column for each task of each suite, with the task's own main metric.

    Raises:
        TableSpecError: the grid evaluates nothing.
    """
    columns: list[Column] = []
    for suite in suites_of(grid):
        tasks, title = source.tasks.get(suite, []), source.titles.get(suite, suite)
        if len(tasks) > 1:
            columns += [Column(title=task, group=title, suite=suite, task=task) for task in tasks]
        else:
            columns.append(Column(title=title, suite=suite))
    if not columns:
        raise TableSpecError(f"grid {grid.name!r} evaluates no suite, so it has no table")
    return TableSpec(columns=tuple(columns))


def suites_of(grid: GridRecord) -> list[str]:
    """The names of the suites that some row is evaluated on."""
    return list(dict.fromkeys(suite for row in grid.rows for suite in row.evaluations))


def elsewhere_notes(grid: GridRecord, spec: TableSpec) -> list[str]:
    """Of every row from elsewhere that is shown: where it is from, and what its results do not hold."""
    suites = {column.suite for column in spec.columns if column.suite is not None}
    shown = None if spec.rows is None else {row.row for row in spec.rows}
    notes = []
    for one in grid.elsewhere:
        if shown is None or one.row in shown:
            missing = list(
                dict.fromkeys(name for suite in one.missing if suite in suites for name in one.missing[suite])
            )
            without = f" They do not hold: {', '.join(missing)}." if missing else ""
            folder = "/".join(Path(one.results).parts[-2:])
            notes.append(f"{one.row}: from results of MTEB made elsewhere ({folder}).{without}")
    return notes
