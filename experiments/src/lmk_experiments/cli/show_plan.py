"""A plan as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lmk_experiments.cli.columns import columns
from lmk_experiments.cli.plan_cells import analysis_json, analysis_lines, cell_state
from lmk_experiments.costs import Cost, PlanCosts, total
from lmk_experiments.costs.plan import cell_key
from lmk_experiments.grids import Plan, count


def plan_text(plan: Plan, root: Path, costs: PlanCosts) -> str:
    """The plan for people: a line a training, a line a row, the sums, the cost, and what was assumed."""
    counts = plan_json(plan, root, costs)["counts"]
    lines = [
        f"{plan.grid}: {plan.title}" if plan.title else plan.grid,
        f"file  {plan.source}",
        f"root  {root}",
        *_blocks(plan, root, costs),
        "",
        _sums(plan, counts),
        *cost_lines(costs),
    ]
    for one in plan.elsewhere:
        if missing := [name for names in one.missing.values() for name in names]:
            lines.append(f"{one.row}: its results do not hold {', '.join(missing)}")
    if plan.not_built:
        names = ", ".join(sorted(plan.not_built))
        lines.append(
            f"not built yet: {names}; `lmk run` builds it first (or `lmk data build {names}`), then cells have names"
        )
    if plan.assumed:
        lines += ["", "assumed, where the source leaves it open:"]
        for one in plan.assumed:
            text = f"{one.key} ({Path(one.file).name}): {one.reason}"
            lines += textwrap.wrap(text, width=118, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines)


def _blocks(plan: Plan, root: Path, costs: PlanCosts) -> list[str]:
    """Trainings, rows and analyses, each as a table of its own, an empty line before it."""
    blocks = []
    if plan.trainings:
        blocks.append(_training_lines(plan, root, costs))
    if plan.rows or plan.elsewhere:
        blocks.append(_row_lines(plan, root, costs))
    if plan.analyses:
        blocks.append(analysis_lines(plan, root, costs))
    return [line for block in blocks for line in ("", columns(block))]


def _sums(plan: Plan, counts: dict[str, int]) -> str:
    """How many cells of each kind; a grid of analyses alone has no others."""
    parts = []
    if counts["pretrainings"]:
        parts.append(f"{counts['pretrainings']} pre-trainings")
    if counts["trainings"] or not counts["analyses"]:
        parts.append(f"{counts['trainings']} trainings ({counts['trainings_done']} done)")
    if counts["rows"] or not counts["analyses"]:
        others = f" and {len(plan.elsewhere)} from elsewhere" if plan.elsewhere else ""
        parts.append(f"{counts['rows']} rows{others}")
        parts.append(f"{counts['evaluations']} evaluations ({counts['evaluations_done']} done)")
    if counts["analyses"]:
        word = "analysis" if counts["analyses"] == 1 else "analyses"
        parts.append(f"{counts['analyses']} {word} ({counts['analyses_done']} done)")
    return ", ".join(parts)


def cost_lines(costs: PlanCosts) -> list[str]:
    """What the cells of a plan cost, and what that rests on."""
    value = costs.to_json()
    if not any(cost.gpu_hours for cost in costs.cells.values()):
        bases = dict.fromkeys(cost.basis for cost in costs.cells.values() if not cost.gpu_hours)
        return [f"cost  {basis}" for basis in bases]
    hours, disk = value["gpu_hours_by_kind"], value["disk_gb"]
    parts = ", ".join(f"{number:,.1f} {kind}" for kind, number in hours.items() if number)
    lines = [f"cost  {value['gpu_hours']:,.1f} GPU hours ({parts}), {value['gpu_hours_left']:,.1f} of them left"]
    for kind, basis in value["basis"].items():
        if basis:
            lines.append(f"      {kind}: {basis}; {value['lengths'][kind]}")
    lines.append(
        f"disk  {disk['weights']:,.1f} GB of weights stay, {disk['caches']:,.1f} GB of models and data are cached; "
        f"while cells run: {disk['checkpoints']:,.1f} GB of checkpoints if all train at once, embeddings of up to "
        f"{disk['embeddings_largest']:,.1f} GB an evaluation"
    )
    return lines


def plan_json(plan: Plan, root: Path, costs: PlanCosts) -> dict[str, Any]:
    """The plan for programs."""
    pretrainings = [_json_of(first, "pretraining", root, costs) for first in plan.pretrainings]
    trainings = [_json_of(training, "training", root, costs) for training in plan.trainings]
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
                    "state": cell_state(root, "evaluation", evaluation.id),
                    "cost": asdict(costs.cells[cell_key("evaluation", evaluation, row)]),
                }
                for evaluation in row.evaluations
            ],
        }
        for row in plan.rows
    ]
    evaluations = [evaluation["state"] for row in rows for evaluation in row["evaluations"]]
    together = count([plan])
    counts = {
        "trainings": len(trainings),
        "trainings_done": sum(training["state"] == "done" for training in trainings),
        "pretrainings": len(pretrainings),
        "rows": len(rows),
        "distinct_readings": together.distinct_readings,
        "evaluations": len(evaluations),
        "evaluations_done": evaluations.count("done"),
        "analyses": len(plan.analyses),
        "analyses_done": sum(cell_state(root, "analysis", one.id) == "done" for one in plan.analyses),
    }
    return {
        "grid": plan.grid,
        "title": plan.title,
        "source": plan.source,
        "root": str(root),
        "counts": counts,
        "cost": costs.to_json(),
        "not_built": sorted(plan.not_built),
        "assumed": [asdict(one) for one in plan.assumed],
        "pretrainings": pretrainings,
        "trainings": trainings,
        "rows": rows,
        "analyses": [analysis_json(one, root, costs) for one in plan.analyses],
        "elsewhere": [
            {"row": one.row, "results": one.results, "tasks": one.counts[0], "missing": one.missing}
            for one in plan.elsewhere
        ],
    }


def _training_state(planned: Any, kind: str, root: Path, costs: PlanCosts) -> str:
    """``not needed`` of a pre-training that has served and is gone."""
    state = cell_state(root, kind, planned.id)
    return "not needed" if state == "planned" and cell_key(kind, planned) in costs.done else state


def _json_of(planned: Any, kind: str, root: Path, costs: PlanCosts) -> dict[str, Any]:
    return {
        "row": planned.row,
        "seed": planned.seed,
        "id": planned.id,
        "state": _training_state(planned, kind, root, costs),
        "cost": asdict(costs.cells[cell_key(kind, planned)]),
        "config": planned.config.model_dump(mode="json"),
    }


def _training_lines(plan: Plan, root: Path, costs: PlanCosts) -> list[list[str]]:
    lines = [["training", "seed", "pooling", "steps", "batch", "GPU h", "GB", "cell", "state"]]
    planned: list[tuple[str, str, Any]] = [("pretraining", "pre-train for ", first) for first in plan.pretrainings]
    planned += [("training", "", training) for training in plan.trainings]
    for kind, prefix, one in planned:
        cost = costs.cells[cell_key(kind, one)]
        optim = one.config.optim
        settings = [str(one.seed), _pooling(one.config.pooling.to_dict()), str(optim.steps), str(optim.batch_size)]
        spent = [_number(cost.gpu_hours), _disk([cost])]
        lines.append([prefix + one.row, *settings, *spent, one.id or "-", _training_state(one, kind, root, costs)])
    return lines


def _row_lines(plan: Plan, root: Path, costs: PlanCosts) -> list[list[str]]:
    lines = [["row", "reads", "as", "evaluations", "done", "GPU h", "GB"]]
    for row in plan.rows:
        states = [cell_state(root, "evaluation", evaluation.id) for evaluation in row.evaluations]
        spent = [costs.cells[cell_key("evaluation", evaluation, row)] for evaluation in row.evaluations]
        known = any(cost.gpu_hours is not None for cost in spent)
        lines.append(
            [
                f"{row.row} (baseline)" if row.baseline else row.row,
                f"{row.training.row}, seed {row.training.seed}",
                _pooling(row.pooling.to_dict()),
                str(len(states)),
                str(states.count("done")),
                _number(total(spent).gpu_hours if known else None),
                _disk(spent),
            ]
        )
    for one in plan.elsewhere:
        found, wanted = one.counts
        reads = f"results of MTEB, {found} of {wanted} tasks"
        lines.append([one.row, reads, "from elsewhere", "0", "0", _number(0.0), _number(0.0)])
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _disk(costs: Iterable[Cost]) -> str:
    """GB that cells take while they run, those that stay included."""
    sums = [(cost.kept_gb or 0.0) + (cost.passing_gb or 0.0) for cost in costs if cost.passing_gb is not None]
    return _number(sum(sums) if sums else None)


def _pooling(pooling: dict[str, Any]) -> str:
    kind, *rest = pooling.values()
    return f"{kind} {', '.join(map(str, rest))}" if rest else str(kind)
