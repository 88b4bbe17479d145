"""The state of a planned cell, and a plan's analyses as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from lmk_experiments.costs import PlanCosts
from lmk_experiments.costs.plan import cell_key
from lmk_experiments.grids import Plan
from lmk_experiments.grids.analyses.plan import PlannedAnalysis
from lmk_experiments.records import Cell, analysis_cell, evaluation_cell, pretraining_cell, training_cell

_CELLS = {
    "pretraining": pretraining_cell,
    "training": training_cell,
    "evaluation": evaluation_cell,
    "analysis": analysis_cell,
}
_SHOWN = 60
"""Characters of the names of models that a line shows."""


def cell_state(root: Path, kind: str, identity: str | None) -> str:
    """The name of a cell's state; ``planned`` while it has no identity."""
    if identity is None:
        return "planned"
    found: Cell = _CELLS[kind](root, identity)
    return found.state().name


def analysis_lines(plan: Plan, root: Path, costs: PlanCosts) -> list[list[str]]:
    """A header, and a line for each analysis."""
    lines = [["analysis", "seed", "kind", "looks at", "GPU h", "cell", "state"]]
    for one in plan.analyses:
        names = ", ".join(series.name for series in one.series) or "texts alone"
        hours = costs.cells[cell_key("analysis", one)].gpu_hours
        shown = names if len(names) <= _SHOWN else f"{len(one.series)} models"
        spent = "-" if hours is None else f"{hours:,.2f}"
        state = cell_state(root, "analysis", one.id)
        lines.append([one.row, str(one.seed), one.entry.kind, shown, spent, one.id or "-", state])
    return lines


def analysis_json(planned: PlannedAnalysis, root: Path, costs: PlanCosts) -> dict[str, Any]:
    """One analysis for programs."""
    return {
        "row": planned.row,
        "seed": planned.seed,
        "kind": planned.entry.kind,
        "title": planned.title,
        "id": planned.id,
        "state": cell_state(root, "analysis", planned.id),
        "cost": asdict(costs.cells[cell_key("analysis", planned)]),
        "config": planned.config(),
    }
