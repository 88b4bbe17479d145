"""The views of a grid file as readings: which training a row of the table reads, and how."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_experiments.configs import ConfigError, Problem, explain, without_key
from lmk_experiments.grids.expand import as_text, combinations, substitute
from lmk_experiments.grids.load import Grid, TrainRow
from lmk_experiments.grids.schema import View, checked_name


@dataclass(frozen=True)
class Reading:
    """One row of the table before its seeds: a trained row, read in one way."""

    row: str
    training: TrainRow
    pooling: PoolingConfig
    baseline: bool


def make_readings(grid: Grid) -> list[Reading]:
    """Every row of the table, in the order of the views.

    Raises:
        ConfigError: a view of a row that is not there or of none, two rows of one name, two that are the same reading.
    """
    readings: list[Reading] = []
    problems: list[Problem] = []
    views = () if grid.file.evaluate is None else grid.file.evaluate.views
    for index, view in enumerate(views):
        at = ("evaluate", "views", index)
        try:
            found = list(read_view(grid, view))
        except PoolingConfigError as error:
            place = (*at, "pooling", *([error.key] if error.key else []))
            problems.append(grid.document.problem(place, without_key(str(error), error.key)))
            continue
        except ValueError as error:
            problems.append(grid.document.problem(at, str(error)))
            continue
        if not found:
            message = "no row is left: none is named by 'of' and let through by 'except' and 'when'"
            problems.append(grid.document.problem(at, message))
        for reading in found:
            for earlier in readings:
                if earlier.row == reading.row:
                    problems.append(grid.document.problem(at, f"row {reading.row!r} stands in the table twice"))
                elif (earlier.training.name, earlier.pooling) == (reading.training.name, reading.pooling):
                    message = f"row {reading.row!r} reads {reading.training.name!r} as row {earlier.row!r} does already"
                    problems.append(grid.document.problem(at, message))
            readings.append(reading)
    if grid.file.evaluate is not None and not views:
        message = "no row is left: a view is needed, for example {of: '*'}; without this key every row is read"
        problems.append(grid.document.problem(("evaluate", "views"), message))
    if sum(reading.baseline for reading in readings) > 1:
        named = ", ".join(reading.row for reading in readings if reading.baseline)
        problems.append(
            grid.document.problem(("train",), f"a table has one baseline; these rows say they are it: {named}")
        )
    if problems:
        raise ConfigError(problems)
    return readings


def read_view(grid: Grid, view: View) -> Iterator[Reading]:
    """The readings of one view.

    Raises:
        ValueError: it names a row or a variable that is not there (a ``PoolingConfigError``: no such pooling).
    """
    own = {name: value for name, value in view.when.items() if name in view.for_}
    of_rows = _conditions_on_rows(grid, view)
    for variables in combinations(view.for_, own):
        patterns = [substitute(of, variables) for of in ([view.of] if isinstance(view.of, str) else view.of)]
        excepted = [substitute(name, variables) for name in view.except_]
        for name in [*patterns, *excepted]:
            if not any(fnmatch.fnmatchcase(row.name, name) for row in grid.rows):
                listed = [row.name for row in grid.rows]
                raise ValueError(f"no training row is called {name!r}; {explain(name, listed)}")
        for row in grid.rows:
            if not any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns):
                continue
            if any(fnmatch.fnmatchcase(row.name, name) for name in excepted):
                continue
            if any(name not in row.variables or row.variables[name] not in values for name, values in of_rows.items()):
                continue
            known = {**row.variables, **variables}
            pooling = _pooling(row.config.pooling, substitute(view.pooling, known))
            label = checked_name(as_text(substitute(view.row, known))) if view.row else row.name
            yield Reading(label, row, pooling, view.baseline or (row.baseline and view.row is None))


def _conditions_on_rows(grid: Grid, view: View) -> dict[str, list[Any]]:
    """The part of ``when`` that names variables of the training rows: each with the values that are let through."""
    conditions = {}
    for name, wanted in view.when.items():
        if name in view.for_:
            continue
        values = wanted if isinstance(wanted, list) else [wanted]
        known = [row.variables[name] for row in grid.rows if name in row.variables]
        if not known:
            valid = sorted({*view.for_, *(name for row in grid.rows for name in row.variables)})
            raise ValueError(f"'when' names {name!r}, which no 'for' does; {explain(name, valid)}")
        for value in values:
            if value not in known:
                valid = list(dict.fromkeys(map(str, known)))
                raise ValueError(f"'when' wants {name}: {value!r}, which no row has; {explain(str(value), valid)}")
        conditions[name] = values
    return conditions


def _pooling(trained: PoolingConfig, change: dict[str, Any] | None) -> PoolingConfig:
    """The reading: a model trained on several granularities is read at one, the smallest unless the view says."""
    pooling = trained
    if change:
        pooling = PoolingConfig.from_dict(change if "kind" in change else {**trained.to_dict(), **change})
    if "latent_attention" in (trained.kind, pooling.kind) and trained.kind != pooling.kind:
        message = f"{trained.kind!r} cannot be read as {pooling.kind!r}: latent attention is made of trained weights"
        raise PoolingConfigError(message, key="kind")
    if isinstance(pooling.granularity, tuple):
        pooling = pooling.with_granularity(min(pooling.granularity))
    return pooling
