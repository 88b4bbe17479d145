"""What a grid comes to: trainings, rows and evaluations, each with its identity."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmk_core.pooling import PoolingConfig
from lmk_eval.suites import Suite, shipped_suite, shipped_suites
from lmk_experiments.builders import fingerprint, is_builtin_reference
from lmk_experiments.configs import ConfigError, explain
from lmk_experiments.elsewhere import Elsewhere
from lmk_experiments.grids.analyses.plan import PlannedAnalysis, plan_analyses
from lmk_experiments.grids.assumed import Assumption
from lmk_experiments.grids.identity import NotBuilt, canonical, identity
from lmk_experiments.grids.load import Grid, TrainRow
from lmk_experiments.grids.readings import make_readings
from lmk_experiments.grids.results import results_rows
from lmk_experiments.grids.schema import ResourcesSection
from lmk_experiments.grids.size import ModelSize
from lmk_experiments.records.cell import PRETRAINING_PREFIX
from lmk_train.config import PretrainConfig, TrainConfig

EVALUATION_RECIPE = 1
"""Raised when a fix changes what an evaluation gives."""


@dataclass(frozen=True)
class PlannedPretraining:
    """One pre-training, named after the row that starts from it."""

    row: str
    seed: int
    config: PretrainConfig
    id: str | None
    size: ModelSize | None = None


@dataclass(frozen=True)
class PlannedTraining:
    """One training. ``id`` is ``None`` while the data it names is not built."""

    row: str
    seed: int
    config: TrainConfig
    id: str | None
    pretraining: PlannedPretraining | None = None
    size: ModelSize | None = None


@dataclass(frozen=True)
class PlannedEvaluation:
    """One reading of one training on one suite."""

    suite: Suite
    pooling: PoolingConfig
    max_length: int
    id: str | None
    weights: str = "float32"
    storage: str = "float32"

    def config(self, training: str) -> dict[str, Any]:
        """The evaluation's ``config`` in ``cell.json``."""
        kinds = {"weights": self.weights, "storage": self.storage}
        return {
            "training": training,
            "pooling": self.pooling.to_dict(),
            "max_length": self.max_length,
            "suite": self.suite.model_dump(mode="json"),
            "recipe_version": EVALUATION_RECIPE,
            # Left out where they are as they were before they could be said, so that identities of then stay.
            **{key: kind for key, kind in kinds.items() if kind != "float32"},
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
    assumed: list[Assumption] = field(default_factory=list)
    """What the files decided where their source leaves it open."""
    collection: str | None = None
    """The set of grids that this one is counted with."""
    elsewhere: list[Elsewhere] = field(default_factory=list)
    """Rows whose results were made elsewhere: nothing is trained or evaluated for them."""
    not_built: set[str] = field(default_factory=set)
    """Names of the builders whose data is missing: identities are known only after they ran."""
    analyses: list[PlannedAnalysis] = field(default_factory=list)
    """Figures: what they compare, and with which settings."""
    warnings: list[str] = field(default_factory=list)
    """What the plan had to do without, in sentences."""

    @property
    def pretrainings(self) -> list[PlannedPretraining]:
        """The pre-trainings that some training starts from, each once."""
        found: dict[str, PlannedPretraining] = {}
        for training in self.trainings:
            if (first := training.pretraining) is not None:
                found.setdefault(first.id or f"{first.row}, seed {first.seed}", first)
        return list(found.values())

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
    warnings: list[str] = []

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
            trainings[row.name, seed] = _training(row, seed, identify)
    _refuse_twins(grid, trainings)
    readings = make_readings(grid)
    suites = _suites(grid)
    analyses = plan_analyses(grid, trainings, content)
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
        assumed=grid.assumed,
        collection=grid.file.collection,
        elsewhere=results_rows(grid, suites, {row.row for row in rows}, root, warnings),
        not_built=missing,
        analyses=analyses,
        warnings=warnings,
    )


def _training(row: TrainRow, seed: int, identify: Any) -> PlannedTraining:
    """A row with its seed. Where a pre-training comes first, its identity stands in the fine-tune's ``init``."""
    config = row.config.model_copy(update={"seed": seed})
    if row.pretraining is None:
        return PlannedTraining(row.name, seed, config, identify(config), None, row.size)
    before = row.pretraining.model_copy(update={"seed": seed})
    first = PlannedPretraining(row.name, seed, before, identify(before), row.size)
    if first.id is None:
        return PlannedTraining(row.name, seed, config, None, first, row.size)
    config = config.model_copy(update={"init": PRETRAINING_PREFIX + first.id})
    return PlannedTraining(row.name, seed, config, identify(config), first, row.size)


def _suites(grid: Grid) -> list[Suite]:
    """The suites, each once, and each length for a suite that is there; none where nothing is evaluated."""
    section = grid.file.evaluate
    if section is None:
        return []
    suites = [_suite(grid, index, suite) for index, suite in enumerate(section.suites)]
    _check_suites(grid, suites, section.max_length)
    return suites


def _suite(grid: Grid, index: int, suite: Suite | str) -> Suite:
    if isinstance(suite, Suite):
        return suite
    if suite in shipped_suites():
        return shipped_suite(suite)
    message = (
        f"no suite is called {suite!r}; {explain(suite, shipped_suites())}, "
        "or write it out: {name: ..., tasks: [...]}"
    )
    raise ConfigError([grid.document.problem(("evaluate", "suites", index), message)])


def _check_suites(grid: Grid, suites: list[Suite], lengths: int | dict[str, int]) -> None:
    names = [suite.name for suite in suites]
    problems = [
        grid.document.problem(("evaluate", "suites", index), f"suite {name!r} stands here twice")
        for index, name in enumerate(names)
        if name in names[:index]
    ]
    for name in lengths if isinstance(lengths, dict) else ():
        if name != "default" and name not in names:
            message = f"no suite of this grid is called {name!r}; {explain(name, ['default', *names])}"
            problems.append(grid.document.problem(("evaluate", "max_length", name), message))
    if problems:
        raise ConfigError(problems)


def _evaluation(
    grid: Grid, training: PlannedTraining, pooling: PoolingConfig, suite: Suite, identify: Any, content: Any
) -> PlannedEvaluation:
    section = grid.file.evaluate
    assert section is not None, "no evaluation is planned without the section that says on what"
    lengths = section.max_length
    if isinstance(lengths, dict):
        if suite.name not in lengths and "default" not in lengths:
            message = f"neither 'default' nor {suite.name!r} is given"
            raise ConfigError([grid.document.problem(("evaluate", "max_length"), message)])
        length = lengths.get(suite.name, lengths.get("default", 0))
    else:
        length = lengths
    draft = PlannedEvaluation(suite, pooling, length, None, section.weights, section.storage)
    if training.id is None:
        return draft
    try:
        described = {"kind": "evaluation", **draft.config(training.id), "suite": canonical(suite, content)}
    except NotBuilt:
        return draft
    return replace(draft, id=identify(described))


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
