"""``lmk plan``: one grid, several together, or the difference of two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import typer

from lmk_experiments.cli.columns import columns
from lmk_experiments.cli.show_plan import cell_state, cost_lines, plan_json, plan_text
from lmk_experiments.costs import PlanCosts, Throughput, plan_costs
from lmk_experiments.costs.plan import KINDS
from lmk_experiments.grids import Plan, count, difference, load_grid_file, make_plan

Shape = Literal["one", "together", "diff"]


def plan_grids(
    names: Sequence[str],
    appendix: Sequence[str],
    root: Path,
    assignments: tuple[str, ...],
    shape: Shape,
    as_json: bool,
    speed: Throughput | None,
) -> str:
    """What ``lmk plan`` prints.

    Args:
        names: the grids.
        appendix: grids that are shown apart and not counted with the others.
    """
    plans = [_plan(name, root, assignments) for name in names]
    if shape == "diff":
        return _difference(*plans, as_json=as_json)
    if shape == "one":
        costs = _costs(plans, root, speed)
        if as_json:
            return json.dumps(plan_json(plans[0], root, costs), indent=2)
        return plan_text(plans[0], root, costs)
    apart = [_plan(name, root, assignments) for name in appendix]
    if as_json:
        return json.dumps(_together_json(plans, apart, root, speed), indent=2)
    return _together_text(plans, apart, root, speed)


def _plan(name: str, root: Path, assignments: tuple[str, ...]) -> Plan:
    from lmk_experiments.tables.load import load_table

    loaded = load_grid_file(name, assignments)
    made = make_plan(loaded, root)
    for one in made.warnings:
        typer.echo(f"warning: {one}", err=True)
    load_table(loaded, made)  # a mistake in the table is told now, not after the trainings
    return made


def _costs(plans: Sequence[Plan], root: Path, speed: Throughput | None) -> PlanCosts:
    return plan_costs(plans, root, speed, lambda kind, identity: cell_state(root, kind, identity) == "done")


def _together_json(
    plans: Sequence[Plan], apart: Sequence[Plan], root: Path, speed: Throughput | None
) -> dict[str, Any]:
    value = {
        **asdict(count(plans)),
        "root": str(root),
        "grids": {plan.grid: _one_of_several(plan, root, speed) for plan in plans},
        "cost": _costs(plans, root, speed).to_json(),
    }
    if apart:
        value["appendix"] = {plan.grid: _one_of_several(plan, root, speed) for plan in apart}
    return value


def _one_of_several(plan: Plan, root: Path, speed: Throughput | None) -> dict[str, Any]:
    done = plan_json(plan, root, _costs([plan], root, speed))
    return {
        **asdict(count([plan])),
        "trainings_done": done["counts"]["trainings_done"],
        "evaluations_done": done["counts"]["evaluations_done"],
        "analyses_done": done["counts"]["analyses_done"],
        "not_built": done["not_built"],
        "cost": done["cost"],
    }


def _together_text(plans: Sequence[Plan], apart: Sequence[Plan], root: Path, speed: Throughput | None) -> str:
    lines = [f"root  {root}", "", columns([_HEADER, *(_line(plan, root, speed) for plan in plans)]), ""]
    lines += [f"together, shared cells once: {count(plans)}", *cost_lines(_costs(plans, root, speed))]
    if apart:
        lines += ["", "appendix, counted apart", "", columns([_HEADER, *(_line(plan, root, speed) for plan in apart)])]
    assumed = len({(one.file, one.key) for plan in (*plans, *apart) for one in plan.assumed})
    if assumed:
        lines += ["", f"{assumed} open points of the source were decided; `lmk plan GRID` lists a grid's own"]
    return "\n".join(lines)


_HEADER = ["grid", "fine-tunes", "pre-trainings", "rows", "evaluations", "analyses", "done", "GPU hours"]


def _line(plan: Plan, root: Path, speed: Throughput | None) -> list[str]:
    counts, costs = count([plan]), _costs([plan], root, speed)
    hours = costs.of(*KINDS).gpu_hours
    cells = counts.fine_tunes + counts.pretrainings + counts.evaluations + counts.analyses
    numbers = [counts.fine_tunes, counts.pretrainings, counts.rows, counts.evaluations, counts.analyses]
    return [plan.grid, *map(str, numbers), f"{len(costs.done)} of {cells}", f"{hours:,.0f}"]


def _difference(a: Plan, b: Plan, *, as_json: bool) -> str:
    found = difference(a, b)
    parts = {"shared": found.shared, f"only in {a.grid}": found.only_a, f"only in {b.grid}": found.only_b}
    if as_json:
        value = {"a": a.grid, "b": b.grid, **asdict(found)}
        return json.dumps(value, indent=2)
    lines = []
    for title, cells in parts.items():
        numbers = ", ".join(
            f"{len(of_kind)} {'analyses' if kind == 'analysis' else f'{kind}s'}"
            for kind, of_kind in cells.items()
            if of_kind or kind != "analysis"
        )
        lines.append(f"{title}: {numbers}")
        lines += [
            f"  {kind:<11} {identity}  {name}" for kind, of_kind in cells.items() for identity, name in of_kind.items()
        ]
    return "\n".join(lines)
