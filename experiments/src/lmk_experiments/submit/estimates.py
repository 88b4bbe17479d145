"""What each cell of a grid was estimated to cost when it was submitted, to be held against what it has used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.records import read_json, write_json

if TYPE_CHECKING:
    from lmk_experiments.grids import Plan

FILE = "estimates.json"


def note_estimates(plan: Plan, root: Path, profile: str) -> None:
    """Write ``<root>/grids/<grid>/estimates.json``: a cell's identity to its hours of one GPU, where they are known."""
    from lmk_experiments.costs import load_throughput, plan_costs  # with all of a grid, which `lmk status` needs not

    costs = plan_costs([plan], root, load_throughput(profile), lambda *_: False)
    hours = {
        key[1]: cost.gpu_hours for key, cost in costs.cells.items() if len(key) == 2 and cost.gpu_hours is not None
    }
    write_json(root / "grids" / plan.grid / FILE, {"profile": profile, "gpu_hours": hours})


def read_estimates(root: Path, grid: str) -> dict[str, float]:
    """A cell's identity to its estimated hours of one GPU; empty where nothing was noted, or it cannot be read."""
    try:
        value: Any = read_json(root / "grids" / grid / FILE)
        return {str(cell): float(hours) for cell, hours in value["gpu_hours"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
