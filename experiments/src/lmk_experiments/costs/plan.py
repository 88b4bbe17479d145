"""The costs of all cells of a plan, each cell once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmk_eval.suites import Suite, Task
from lmk_experiments.costs.analysis import analysis_cost
from lmk_experiments.costs.estimate import Cost, evaluation_cost, pretraining_cost, total, training_cost
from lmk_experiments.costs.measured import measured_size
from lmk_experiments.costs.throughput import Throughput
from lmk_experiments.costs.tokens import suite_tokens
from lmk_experiments.datasets import is_data_reference, load_data_set, parse_reference
from lmk_experiments.grids.plan import Plan, PlannedEvaluation, PlannedPretraining, PlannedRow, PlannedTraining
from lmk_experiments.grids.ready import needed_pretrainings
from lmk_experiments.grids.size import ModelSize

CHECKPOINTED = ("pretraining", "training")
KINDS = (*CHECKPOINTED, "evaluation", "analysis")


@dataclass
class PlanCosts:
    """Costs by the key that `cell_key` gives a planned cell."""

    cells: dict[tuple[str, ...], Cost] = field(default_factory=dict)
    done: set[tuple[str, ...]] = field(default_factory=set)
    """Those that are done, and pre-trainings that have served."""
    data_gb: float = 0.0
    """Named data sets."""
    texts_gb: float = 0.0
    """The texts of the evaluations, in the cache."""
    models_gb: float = 0.0
    """The models that the trainings start from, in the cache."""

    def of(self, *kinds: str, left: bool = False) -> Cost:
        """The sum over all cells of these kinds; with ``left``, over those that are not done."""
        return total(cost for key, cost in self.cells.items() if key[0] in kinds and not (left and key in self.done))

    def _largest(self, kind: str) -> float:
        return max((cost.passing_gb or 0.0 for key, cost in self.cells.items() if key[0] == kind), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """For programs: hours by kind and in all, and disk."""
        whole, left = self.of(*KINDS), self.of(*KINDS, left=True)
        # Analyses are named where there are some: without, everything reads as it did.
        every = [kind for kind in KINDS if kind != "analysis" or any(key[0] == kind for key in self.cells)]
        return {
            "gpu_hours": _rounded(whole.gpu_hours),
            "gpu_hours_left": _rounded(left.gpu_hours),
            "gpu_hours_by_kind": {kind: _rounded(self.of(kind).gpu_hours) for kind in every},
            "basis": {kind: self.of(kind).basis for kind in every},
            "lengths": {kind: self.of(kind).lengths for kind in every},
            "cells_unknown": sum(cost.gpu_hours is None for cost in self.cells.values()),
            "disk_gb": {
                "weights": _rounded(whole.kept_gb),
                "checkpoints": _rounded(self.of(*CHECKPOINTED).passing_gb),
                "embeddings": _rounded(self.of("evaluation").passing_gb),
                "embeddings_largest": _rounded(self._largest("evaluation")),
                "caches": _rounded(self.data_gb + self.texts_gb + self.models_gb),
            },
        }


def cell_key(kind: str, planned: Any, row: PlannedRow | None = None) -> tuple[str, ...]:
    """A planned cell's kind and identity, or its place in the grid while it has none."""
    if planned.id is not None:
        return kind, planned.id
    if isinstance(planned, PlannedEvaluation):
        return (kind, row.row, str(row.training.seed), planned.suite.name) if row else (kind, planned.suite.name)
    return kind, planned.row, str(planned.seed)


def plan_costs(
    plans: Sequence[Plan], root: Path, speed: Throughput | None, is_done: Callable[[str, str | None], bool]
) -> PlanCosts:
    """The costs of one plan or of several together, cells that they share once.

    Args:
        is_done: whether the cell of this kind and identity is done.
    """
    costs = PlanCosts()
    names: set[str] = set()
    models: dict[str, ModelSize] = {}
    tasks: list[Task] = []

    def add(kind: str, planned: Any, make: Callable[[], Cost], row: PlannedRow | None = None) -> None:
        key = cell_key(kind, planned, row)
        if key not in costs.cells:
            costs.cells[key] = make()
            if is_done(kind, planned.id):
                costs.done.add(key)

    found: dict[str, ModelSize | None] = {}

    def size_of(planned: PlannedTraining | PlannedPretraining) -> ModelSize | None:
        """As a model file says, else as the weights that lie here do."""
        path = planned.config.model.path
        if planned.size is None and path not in found:
            found[path] = measured_size(path, root)
        return planned.size or found.get(path)

    for plan in plans:
        for planned in (*plan.pretrainings, *plan.trainings):
            names |= {parse_reference(one)[0] for one in planned.config.data.paths if is_data_reference(one)}
            if (size := size_of(planned)) is not None:
                models[planned.config.model.path] = size
        for first in plan.pretrainings:
            add("pretraining", first, lambda first=first: pretraining_cost(first.config, size_of(first), speed))
        for training in plan.trainings:
            add("training", training, lambda one=training: training_cost(one.config, size_of(one), speed))
        for row, evaluation in plan.evaluations:
            tasks += evaluation.suite.tasks
            make = _evaluation(evaluation, size_of(row.training), root, speed)
            add("evaluation", evaluation, make, row)
        for analysis in plan.analyses:
            names |= {parse_reference(one)[0] for one in analysis.references if is_data_reference(one)}
            tasks += analysis.tasks
            add("analysis", analysis, lambda one=analysis: analysis_cost(one, speed))
    needed = {cell_key("pretraining", first) for plan in plans for first in needed_pretrainings(plan, is_done)}
    costs.done |= {key for key in costs.cells if key[0] == "pretraining"} - needed
    costs.data_gb = sum(load_data_set(name).gb for name in names)
    costs.models_gb = sum((size.parameters + size.embedding_parameters) * 4 / 1e9 for size in models.values())
    costs.texts_gb = _texts_gb(tasks, root)
    return costs


def _evaluation(
    evaluation: PlannedEvaluation, size: ModelSize | None, root: Path, speed: Throughput | None
) -> Callable[[], Cost]:
    return lambda: evaluation_cost(
        evaluation.suite, evaluation.max_length, size, root, speed, evaluation.storage, evaluation.weights
    )


def _texts_gb(tasks: Iterable[Task], root: Path) -> float:
    """A byte a character; each subset of a task of MTEB once, however many tasks and suites read it."""
    read: dict[tuple[str, str | None], Task] = {}
    for task in tasks:
        if task.mteb:
            key = task.mteb, task.split
            read[key] = _both(read[key], task) if key in read else task
    found = [suite_tokens(Suite(name="one", tasks=(task,)), 1, root) for task in read.values()]
    return sum((one.characters or 0) / 1e9 for one in found if one is not None)


def _both(one: Task, other: Task) -> Task:
    """A task that reads the subsets of both; ``None`` is all of them."""
    whole = one.subsets is None or other.subsets is None
    return one.model_copy(update={"subsets": None if whole else tuple(dict.fromkeys(one.subsets + other.subsets))})


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
