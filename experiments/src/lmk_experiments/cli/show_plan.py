"""A plan as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_experiments.cli.columns import columns
from lmk_experiments.grids import Plan
from lmk_experiments.records import Cell, evaluation_cell, training_cell


def plan_text(plan: Plan, root: Path) -> str:
    """The plan for people: a line a training, a line a row, and the sums."""
    trainings = [["training", "seed", "pooling", "steps", "batch", "cell", "state"]]
    for training in plan.trainings:
        optim = training.config.optim
        pooling = _pooling(training.config.pooling.to_dict())
        cell = [training.id or "-", _state(training_cell, root, training.id)]
        trainings.append([training.row, str(training.seed), pooling, str(optim.steps), str(optim.batch_size), *cell])
    rows = [["row", "reads", "as", "evaluations", "done"]]
    for row in plan.rows:
        states = [_state(evaluation_cell, root, evaluation.id) for evaluation in row.evaluations]
        name = f"{row.row} (baseline)" if row.baseline else row.row
        reads = f"{row.training.row}, seed {row.training.seed}"
        rows.append([name, reads, _pooling(row.pooling.to_dict()), str(len(states)), str(states.count("done"))])
    counts = plan_json(plan, root)["counts"]
    lines = [
        f"{plan.grid}: {plan.title}" if plan.title else plan.grid,
        f"file  {plan.source}",
        f"root  {root}",
        "",
        columns(trainings),
        "",
        columns(rows),
        "",
        f"{counts['trainings']} trainings ({counts['trainings_done']} done), {counts['rows']} rows, "
        f"{counts['evaluations']} evaluations ({counts['evaluations_done']} done)",
    ]
    if plan.not_built:
        names = ", ".join(sorted(plan.not_built))
        lines.append(
            f"not built yet: {names}; `lmk run` builds it first (or `lmk data build {names}`), then cells have names"
        )
    return "\n".join(lines)


def plan_json(plan: Plan, root: Path) -> dict[str, Any]:
    """The plan for programs."""
    trainings = [
        {
            "row": training.row,
            "seed": training.seed,
            "id": training.id,
            "state": _state(training_cell, root, training.id),
            "config": training.config.model_dump(mode="json"),
        }
        for training in plan.trainings
    ]
    rows: list[dict[str, Any]] = [
        {
            "row": row.row,
            "training": row.training.row,
            "seed": row.training.seed,
            "pooling": row.pooling.to_dict(),
            "baseline": row.baseline,
            "evaluations": [
                {
                    "suite": evaluation.suite.name,
                    "max_length": evaluation.max_length,
                    "id": evaluation.id,
                    "state": _state(evaluation_cell, root, evaluation.id),
                }
                for evaluation in row.evaluations
            ],
        }
        for row in plan.rows
    ]
    evaluations = [evaluation["state"] for row in rows for evaluation in row["evaluations"]]
    counts = {
        "trainings": len(trainings),
        "trainings_done": sum(training["state"] == "done" for training in trainings),
        "rows": len(rows),
        "evaluations": len(evaluations),
        "evaluations_done": evaluations.count("done"),
    }
    return {
        "grid": plan.grid,
        "title": plan.title,
        "source": plan.source,
        "root": str(root),
        "counts": counts,
        "not_built": sorted(plan.not_built),
        "trainings": trainings,
        "rows": rows,
    }


def _state(cell: Any, root: Path, identity: str | None) -> str:
    if identity is None:
        return "planned"
    found: Cell = cell(root, identity)
    return found.state().name


def _pooling(pooling: dict[str, Any]) -> str:
    kind, *rest = pooling.values()
    return f"{kind} {', '.join(map(str, rest))}" if rest else str(kind)
