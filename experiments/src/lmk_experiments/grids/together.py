"""Several plans at once: what they come to together, and how two differ."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lmk_experiments.configs import load_document, shipped_folder, shipped_names
from lmk_experiments.grids.plan import Plan, PlannedRow


@dataclass(frozen=True)
class Counts:
    """What plans come to, shared cells once."""

    fine_tunes: int
    pretrainings: int
    rows: int
    distinct_readings: int
    evaluations: int
    analyses: int = 0

    def __str__(self) -> str:
        before = f" and {self.pretrainings} pre-trainings" if self.pretrainings else ""
        figures = f", {self.analyses} analyses" if self.analyses else ""
        return (
            f"{self.fine_tunes} fine-tunes{before}, {self.rows} rows ({self.distinct_readings} distinct readings), "
            f"{self.evaluations} evaluations{figures}"
        )


def count(plans: Iterable[Plan]) -> Counts:
    """The counts of all ``plans`` together; a reading is one training, one pooling and the lengths it is read at."""
    plans = list(plans)
    return Counts(
        fine_tunes=len({key for plan in plans for key in _trainings(plan)}),
        pretrainings=len({first.id or (plan.grid, first.row) for plan in plans for first in plan.pretrainings}),
        rows=sum(len(plan.rows) for plan in plans),
        distinct_readings=len({_reading(plan, row) for plan in plans for row in plan.rows}),
        evaluations=len({key for plan in plans for key in _evaluations(plan)}),
        analyses=len({one.id or (plan.grid, one.row, one.seed) for plan in plans for one in plan.analyses}),
    )


def collected(collection: str) -> list[str]:
    """The shipped grids of a collection, in the order of their names."""
    folder = shipped_folder("grids")
    documents = {name: load_document(folder / f"{name}.yaml") for name in shipped_names("grids")}
    return [name for name, document in documents.items() if document.value.get("collection") == collection]


@dataclass(frozen=True)
class Difference:
    """Cells of two plans: kind to identity to the rows' names, shared or in one alone."""

    shared: dict[str, dict[str, str]]
    only_a: dict[str, dict[str, str]]
    only_b: dict[str, dict[str, str]]


def difference(a: Plan, b: Plan) -> Difference:
    """Which cells both plans have, and which only one has.

    Raises:
        ValueError: a plan names data that is not built yet, so its cells have no identity.
    """
    cells_a, cells_b = _cells(a), _cells(b)
    kinds = ("pretraining", "training", "evaluation", "analysis")

    def part(keep: Any, cells: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        return {kind: {key: name for key, name in cells[kind].items() if keep(kind, key)} for kind in kinds}

    return Difference(
        shared=part(lambda kind, key: key in cells_b[kind], cells_a),
        only_a=part(lambda kind, key: key not in cells_b[kind], cells_a),
        only_b=part(lambda kind, key: key not in cells_a[kind], cells_b),
    )


def _cells(plan: Plan) -> dict[str, dict[str, str]]:
    if plan.not_built:
        names = ", ".join(sorted(plan.not_built))
        raise ValueError(f"{plan.grid}: its cells have no identity before {names} is built: lmk data build {names}")
    seeded = len({training.seed for training in plan.trainings}) > 1

    def named(row: str, seed: int) -> str:
        return f"{row}, seed {seed}" if seeded else row

    evaluations = {
        str(evaluation.id): f"{named(row.row, row.training.seed)} on {evaluation.suite.name}"
        for row, evaluation in plan.evaluations
    }
    return {
        "pretraining": {str(first.id): named(first.row, first.seed) for first in plan.pretrainings},
        "training": {str(training.id): named(training.row, training.seed) for training in plan.trainings},
        "evaluation": evaluations,
        "analysis": {str(one.id): named(one.row, one.seed) for one in plan.analyses},
    }


def _trainings(plan: Plan) -> list[Any]:
    return [training.id or (plan.grid, training.row, training.seed) for training in plan.trainings]


def _evaluations(plan: Plan) -> list[Any]:
    return [
        evaluation.id or (plan.grid, row.row, row.training.seed, evaluation.suite.name)
        for row, evaluation in plan.evaluations
    ]


def _reading(plan: Plan, row: PlannedRow) -> Any:
    if row.training.id is None:
        return plan.grid, row.row, row.training.seed
    lengths = {evaluation.suite.name: evaluation.max_length for evaluation in row.evaluations}
    return row.training.id, json.dumps([row.pooling.to_dict(), lengths], sort_keys=True)
