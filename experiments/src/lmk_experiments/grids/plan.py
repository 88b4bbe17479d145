"""What a grid comes to: trainings, rows and evaluations, each with its identity."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_eval.suites import Suite
from lmk_experiments.builders import fingerprint, is_builtin_reference
from lmk_experiments.configs import ConfigError, Problem, explain
from lmk_experiments.grids.expand import combinations, substitute
from lmk_experiments.grids.identity import NotBuilt, canonical, identity
from lmk_experiments.grids.load import Grid, TrainRow
from lmk_experiments.grids.schema import ResourcesSection, View, checked_name
from lmk_train.config import TrainConfig

EVALUATION_RECIPE = 1
"""Raised when a fix changes what an evaluation gives."""


@dataclass(frozen=True)
class PlannedTraining:
    """One training. ``id`` is ``None`` while the data it names is not built."""

    row: str
    seed: int
    config: TrainConfig
    id: str | None


@dataclass(frozen=True)
class PlannedEvaluation:
    """One reading of one training on one suite."""

    suite: Suite
    pooling: PoolingConfig
    max_length: int
    id: str | None

    def config(self, training: str) -> dict[str, Any]:
        """The evaluation's ``config`` in ``cell.json``."""
        return {
            "training": training,
            "pooling": self.pooling.to_dict(),
            "max_length": self.max_length,
            "suite": self.suite.model_dump(mode="json"),
            "recipe_version": EVALUATION_RECIPE,
        }


@dataclass(frozen=True)
class PlannedRow:
    """One row of the table."""

    row: str
    training: PlannedTraining
    pooling: PoolingConfig
    baseline: bool
    evaluations: list[PlannedEvaluation]


@dataclass(frozen=True)
class Plan:
    """Everything a grid comes to under one root."""

    grid: str
    title: str
    source: str
    trainings: list[PlannedTraining]
    rows: list[PlannedRow]
    resources: ResourcesSection
    table: str | None
    not_built: set[str] = field(default_factory=set)
    """Names of the builders whose data is missing: identities are known only after they ran."""

    @property
    def evaluations(self) -> list[tuple[PlannedRow, PlannedEvaluation]]:
        """Every evaluation with its row."""
        return [(row, evaluation) for row in self.rows for evaluation in row.evaluations]


def make_plan(grid: Grid, root: Path) -> Plan:
    """Expand ``grid`` and look up the identities under ``root``; builds nothing, and keeps fingerprints only.

    Raises:
        ConfigError: a view of a row that is not there, two rows of one name, two rows that are the same reading.
    """
    missing: set[str] = set()

    def content(reference: str) -> str | None:
        found = fingerprint(reference, root)
        if found is None and is_builtin_reference(reference):
            missing.add(reference.removeprefix("built:").split("/")[0])
        return found

    def identify(value: Any) -> str | None:
        try:
            return identity(value, content)
        except NotBuilt:
            return None

    trainings: dict[tuple[str, int], PlannedTraining] = {}
    for row in grid.rows:
        for seed in grid.file.seeds:
            config = row.config.model_copy(update={"seed": seed})
            trainings[row.name, seed] = PlannedTraining(row.name, seed, config, identify(config))
    _refuse_twins(grid, trainings)
    readings = _readings(grid)
    suites = [_suite(grid, index) for index in range(len(grid.file.evaluate.suites))]
    rows = []
    for reading in readings:
        for seed in grid.file.seeds:
            training = trainings[reading.training.name, seed]
            evaluations = [_evaluation(grid, training, reading.pooling, suite, identify, content) for suite in suites]
            rows.append(PlannedRow(reading.row, training, reading.pooling, reading.baseline, evaluations))
    return Plan(
        grid=grid.file.grid,
        title=grid.file.title,
        source=grid.document.file,
        trainings=list(trainings.values()),
        rows=rows,
        resources=grid.file.resources,
        table=grid.file.table,
        not_built=missing,
    )


@dataclass(frozen=True)
class _Reading:
    row: str
    training: TrainRow
    pooling: PoolingConfig
    baseline: bool


def _readings(grid: Grid) -> list[_Reading]:
    readings: list[_Reading] = []
    problems: list[Problem] = []
    for index, view in enumerate(grid.file.evaluate.views):
        at = ("evaluate", "views", index)
        try:
            found = list(_read(grid, view))
        except PoolingConfigError as error:
            problems.append(grid.document.problem((*at, "pooling", *([error.key] if error.key else [])), str(error)))
            continue
        except ValueError as error:
            problems.append(grid.document.problem(at, str(error)))
            continue
        for reading in found:
            for earlier in readings:
                if earlier.row == reading.row:
                    problems.append(grid.document.problem(at, f"row {reading.row!r} stands in the table twice"))
                elif (earlier.training.name, earlier.pooling) == (reading.training.name, reading.pooling):
                    message = f"row {reading.row!r} reads {reading.training.name!r} as row {earlier.row!r} does already"
                    problems.append(grid.document.problem(at, message))
            readings.append(reading)
    if sum(reading.baseline for reading in readings) > 1:
        named = ", ".join(reading.row for reading in readings if reading.baseline)
        problems.append(
            grid.document.problem(("train",), f"a table has one baseline; these rows say they are it: {named}")
        )
    if problems:
        raise ConfigError(problems)
    return readings


def _read(grid: Grid, view: View) -> Iterator[_Reading]:
    for variables in combinations(view.for_, view.when):
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
            pooling = _pooling(row.config.pooling, substitute(view.pooling, variables))
            label = checked_name(str(substitute(view.row, variables))) if view.row else row.name
            yield _Reading(label, row, pooling, view.baseline or (row.baseline and view.row is None))


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


def _suite(grid: Grid, index: int) -> Suite:
    suite = grid.file.evaluate.suites[index]
    if isinstance(suite, Suite):
        return suite
    written = [other.name for other in grid.file.evaluate.suites if isinstance(other, Suite)]
    message = f"no suite is called {suite!r}; {explain(suite, written)}, or write it out: {{name: ..., tasks: [...]}}"
    raise ConfigError([grid.document.problem(("evaluate", "suites", index), message)])


def _evaluation(
    grid: Grid, training: PlannedTraining, pooling: PoolingConfig, suite: Suite, identify: Any, content: Any
) -> PlannedEvaluation:
    lengths = grid.file.evaluate.max_length
    if isinstance(lengths, dict):
        if suite.name not in lengths and "default" not in lengths:
            message = f"neither 'default' nor {suite.name!r} is given"
            raise ConfigError([grid.document.problem(("evaluate", "max_length"), message)])
        length = lengths.get(suite.name, lengths.get("default", 0))
    else:
        length = lengths
    draft = PlannedEvaluation(suite, pooling, length, None)
    if training.id is None:
        return draft
    try:
        described = {"kind": "evaluation", **draft.config(training.id), "suite": canonical(suite, content)}
    except NotBuilt:
        return draft
    return PlannedEvaluation(suite, pooling, length, identify(described))


def _refuse_twins(grid: Grid, trainings: dict[tuple[str, int], PlannedTraining]) -> None:
    """Two rows that are the same training are one row too many: a second reading is a view."""
    seen: dict[str, PlannedTraining] = {}
    at = {row.name: row.at for row in grid.rows}
    problems = []
    for training in trainings.values():
        if training.id is None:
            continue
        if training.id in seen:
            first = seen[training.id].row
            message = f"row {training.row!r} is the same training as row {first!r}; read it twice with evaluate.views"
            problems.append(grid.document.problem(at[training.row], message))
        seen[training.id] = training
    if problems:
        raise ConfigError(problems)
