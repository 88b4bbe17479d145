"""The sections about the work: what is missing, what it cost, what ran where, and with which code."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from lmk_experiments.records.attempts import Attempt, gpu_hours
from lmk_experiments.records.state import format_seconds
from lmk_experiments.report.gather import Gathered, Ran
from lmk_experiments.report.parts import Cell, Link, Long, data_table, paragraph, section, text

_LISTED = 12
"""Unfinished cells that are listed one by one."""
_LIBRARIES = ("lmk-experiments", "torch", "transformers", "lightning", "mteb", "mlflow")


def missing_part(gathered: Gathered) -> str:
    """What is not finished, and why; nothing where all is."""
    missing = gathered.missing
    if not missing:
        return ""
    items = [f"{_name(one)}: {one.state}" for one in missing[:_LISTED]]
    if len(missing) > _LISTED:
        items.append(f"and {len(missing) - _LISTED} more; the list is under “What ran where”")
    listed = "".join(f"<li>{text(item)}</li>" for item in items)
    said = f"{len(missing)} of {len(gathered.cells)} cells are not done, so this report is not whole."
    return f'<div class="missing" id="missing"><strong>{text(said)}</strong><ul>{listed}</ul></div>'


def _name(one: Ran) -> str:
    seed = f", seed {one.seed}" if one.seed else ""
    return f"{one.kind} {one.row}{f' on {one.suite}' if one.suite else ''}{seed}"


def cost_part(gathered: Gathered) -> str:
    """GPU hours: estimated and used, a line a training and a line a row's evaluations."""
    rows: list[list[Cell]] = []
    for kind in ("pretraining", "training", "evaluation", "analysis"):
        groups: dict[tuple[str, int], list[Ran]] = {}
        for one in gathered.cells:
            if one.kind == kind:
                groups.setdefault((one.row, one.seed), []).append(one)
        rows += [_cost_line(gathered, kind, row, seed, cells) for (row, seed), cells in groups.items()]
    rows.append(["all", "", "", *_spent(gathered, gathered.cells)])
    header = ["row", "what", "seed", "starts", "hours", "GPU hours used", "GPU hours estimated"]
    said = [
        "Hours are of the clock, from the records’ own starts and ends; those of the jobs that encode shares of an "
        "evaluation are in its line. GPUs are those that a job was given, else as many as it had processes on GPUs: as "
        "`lmk status` counts them."
    ]
    said.append(gathered.no_costs or _basis(gathered))
    table = data_table("GPU hours", header, rows, labels=2)
    return section("cost", "Cost", table, *(paragraph(one) for one in said if one))


def _basis(gathered: Gathered) -> str:
    costs = gathered.costs
    bases = dict.fromkeys(cost.basis for cost in costs.cells.values() if cost.basis) if costs else {}
    return f"Estimates: {'; '.join(bases)}." if bases else ""


def _cost_line(gathered: Gathered, kind: str, row: str, seed: int, cells: Sequence[Ran]) -> list[Cell]:
    what = kind if kind != "evaluation" else f"{len(cells)} evaluations" if len(cells) > 1 else "1 evaluation"
    return [row, what, str(seed), *_spent(gathered, cells)]


def _spent(gathered: Gathered, cells: Sequence[Ran]) -> list[Cell]:
    once = list({one.cell.folder: one for one in cells}.values())
    listed = [start for one in once for start in _starts(one)]
    if not listed:
        return ["0", None, None, _estimated(gathered, cells)]
    hours = sum(start.seconds(0.0) for start in listed) / 3600
    starts = sum(len(one.attempts) for one in once)
    return [str(starts), _hours(hours), _hours(gpu_hours(listed, 0.0)), _estimated(gathered, cells)]


def _starts(one: Ran) -> list[Attempt]:
    return [*one.attempts, *one.helpers]


def _estimated(gathered: Gathered, cells: Sequence[Ran]) -> Cell:
    if gathered.costs is None:
        return None
    known = [
        cost.gpu_hours
        for key in dict.fromkeys((one.kind, one.cell.id) for one in cells)
        if (cost := gathered.costs.cells.get(key)) is not None and cost.gpu_hours is not None
    ]
    return _hours(sum(known)) if known else None


def _hours(value: float) -> str:
    """Two digits after the point; of a very short time the first two that are not zero."""
    return f"{value:,.2f}" if value >= 0.01 or value == 0 else f"{value:.2g}"


def where_part(gathered: Gathered) -> str:
    """Every start of every cell."""
    rows: list[list[Cell]] = []
    for one in gathered.cells:
        run = Link(one.run_id[:8], one.link) if one.run_id else None
        for number, start in enumerate(one.attempts, start=1):
            rows.append(
                [
                    *(one.row, one.kind, one.suite, str(one.seed), str(number)),
                    *(start.host, start.job or "", start.user, _moment(start.started)),
                    *(format_seconds(start.seconds(0.0)), Long(_ended(one, start)), one.cell.id, run),
                ]
            )
        if not one.attempts:
            rows.append(
                [one.row, one.kind, one.suite, str(one.seed), "", *[""] * 4, "", Long(str(one.state)), one.cell.id, run]
            )
    restarts = sum(max(0, len(one.attempts) - 1) for one in gathered.cells)
    again = f"{restarts} of the {sum(len(one.attempts) for one in gathered.cells)} starts were restarts."
    header = ["row", "cell", "suite", "seed", "start", "host", "job", "user", "began", "took", "ended", "id", "MLflow"]
    table = data_table("Every start of every cell", header, rows, labels=13)
    links = (
        "MLflow’s runs have no link here, for their store is a file. The command lmk ui shows them; with --mlflow-ui "
        "and its address, lmk report links every run."
    )
    linked = any(one.link for one in gathered.cells) or not any(one.run_id for one in gathered.cells)
    folded = f"<details{' open' if len(rows) <= 40 else ''}><summary>{len(rows)} lines</summary>{table}</details>"
    return section("where", "What ran where", paragraph(again), *([] if linked else [paragraph(links)]), folded)


def _ended(one: Ran, start: Attempt) -> str:
    return "running" if start.end == "open" and one.state.name == "running" else start.said


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + "Z"


def environment_part(gathered: Gathered) -> str:
    """The code and machines of the cells, and what wrote this page."""
    starts = [start for one in gathered.cells for start in _starts(one)]
    told: list[tuple[str, list[str]]] = [
        ("code", [start.code for start in starts]),
        ("torch", [start.torch for start in starts]),
        ("device", [start.device for start in starts]),
        ("host", [start.host for start in starts]),
    ]
    rows: list[list[Cell]] = []
    for name, values in told:
        counts = {value: values.count(value) for value in dict.fromkeys(values) if value}
        rows += [[name, value, f"{count} starts"] for value, count in counts.items()]
    for library in _LIBRARIES:
        try:
            rows.append([f"{library}, of this page", version(library), ""])
        except PackageNotFoundError:
            continue
    rows.append(["Python, of this page", platform.python_version(), ""])
    rows.append(["grid file", gathered.record.source or None, ""])
    configs = "".join(
        f"<details><summary>{text(one.row)}, seed {one.seed}, {one.kind} {one.cell.id}</summary>"
        f"<pre>{text(json.dumps(gathered.configs[one.cell.id], indent=2, ensure_ascii=False))}</pre></details>"
        for one in gathered.cells
        if one.cell.id in gathered.configs
    )
    said = "A commit is known of jobs that ran from a copy of it (`lmk submit`); else the folder of the code is named."
    table = data_table("Environment", ["what", "value", "where"], rows, labels=3)
    inner = [table, paragraph(said), f'<div class="configs"><h3>Configurations</h3>{configs}</div>']
    return section("environment", "Environment and configuration", *inner)
