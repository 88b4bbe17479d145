"""What a report shows of a grid, read from its records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from lmk_experiments.costs import PlanCosts
from lmk_experiments.jobs.shares import share_starts
from lmk_experiments.mirror.store import without_credentials
from lmk_experiments.records import Cell, GridRecord, Listed, State, list_cells, read_json
from lmk_experiments.records.attempts import Attempt, starts_of
from lmk_experiments.records.figures import has_table
from lmk_experiments.report.profiles import Profile, over_labels, profiles
from lmk_experiments.tables import Comparing, Table, collect, load_source


@dataclass(frozen=True)
class Ran:
    """One cell: where it stands, and its starts.

    Attributes:
        suite: of an evaluation.
        link: the address of its run in an MLflow UI; empty where that is not known.
        run_id: MLflow's, where it was mirrored.
        helpers: starts of the jobs that encoded shares of an evaluation's corpora.
    """

    cell: Cell
    kind: str
    row: str
    seed: int
    suite: str
    state: State
    attempts: list[Attempt]
    helpers: list[Attempt]
    link: str = ""
    run_id: str = ""


@dataclass(frozen=True)
class Curve:
    """One training's values of one metric: (step, value) in the order of the steps."""

    row: str
    seed: int
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Gathered:
    """Everything of a report.

    Attributes:
        table: ``None`` where the grid has no rows.
        costs: the estimate; ``None`` where the grid file cannot be planned any more, and ``no_costs`` says why.
        curves: metric to the trainings' curves.
        profiles: the charts over lengths and places.
    """

    root: Path
    record: GridRecord
    table: Table | None
    cells: list[Ran]
    curves: dict[str, list[Curve]]
    profiles: list[Profile]
    costs: PlanCosts | None = None
    no_costs: str = ""
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Id of a training, a pre-training or an analysis to its configuration."""

    @property
    def hues(self) -> dict[str, int]:
        """A color for every row and every training, the same in all charts; a row by its name and its label."""
        hues: dict[str, int] = {}
        record = self.record
        others = [(one.row, one.row) for one in (*record.rows, *record.trainings, *record.elsewhere)]
        rows = () if self.table is None else self.table.rows
        for name, label in [*((row.name, row.label) for row in rows), *others]:
            hue = hues.setdefault(name, len(set(hues.values())))
            hues.setdefault(label, hue)
        return hues

    @property
    def missing(self) -> list[Ran]:
        """The cells that are not done."""
        return [one for one in self.cells if one.state.name != "done"]


def gather(
    record: GridRecord, root: Path, *, ui: str | None = None, costs: PlanCosts | None = None, no_costs: str = ""
) -> Gathered:
    """Read a grid's records.

    Args:
        costs: the estimate, where the grid can be planned; else ``no_costs`` says why not.
        ui: the address of an MLflow UI, for links; by default that of the server the cells were mirrored to, if any.

    Raises:
        ValueError: ``ui`` is no address; or the grid's table asks for what is not there.
    """
    if ui is not None and (urlsplit(ui).scheme not in ("http", "https") or not urlsplit(ui).netloc):
        raise ValueError(f"--mlflow-ui {ui}: an address is needed, http://127.0.0.1:5000 for example")
    ui = without_credentials(ui) if ui is not None else None
    source = load_source(root, record)
    table = (
        collect(record, source, tests=Comparing(intervals=True) if source.scores else None)
        if has_table(record)
        else None
    )
    cells = [_ran(one, ui) for one in list_cells(record, root)]
    configs = {one.cell.id: config for one in cells if one.kind != "evaluation" and (config := _config(one.cell))}
    shown = [*over_labels(record, source), *profiles(record, source)]
    return Gathered(root, record, table, cells, _curves(cells), shown, costs, no_costs, configs)


def _ran(one: Listed, ui: str | None) -> Ran:
    helpers = share_starts(one.cell) if one.kind == "evaluation" else []
    run_id, link = _mlflow(one.cell, ui)
    state, starts = one.cell.state(), starts_of(one.cell)
    return Ran(one.cell, one.kind, one.row, one.seed, one.suite, state, starts, helpers, link, run_id)


def _mlflow(cell: Cell, ui: str | None) -> tuple[str, str]:
    """The id of the cell's run, and its address in the UI."""
    try:
        marks = read_json(cell.folder / "mlflow.json") or {}
        run_id, store = str(marks.get("run_id") or ""), str(marks.get("uri") or "")
    except (ValueError, AttributeError, OSError):
        return "", ""
    base = ui or (store if urlsplit(store).scheme in ("http", "https") else "")
    return run_id, f"{base.rstrip('/')}/#/runs/{quote(run_id, safe='')}" if base and run_id else ""


def _config(cell: Cell) -> dict[str, Any]:
    try:
        return cell.config
    except (ValueError, KeyError):
        return {}


def _curves(cells: list[Ran]) -> dict[str, list[Curve]]:
    """Every metric of the trainings: losses first, then the learning rate, then validation, then the rest.

    A pre-training's are charts of their own: its loss is another one.
    """
    found: dict[str, list[Curve]] = {}
    for one in cells:
        if one.kind not in ("pretraining", "training"):
            continue
        before = "pre-training, " if one.kind == "pretraining" else ""
        by_metric: dict[str, list[tuple[float, float]]] = {}
        for line in one.cell.metrics():
            for name, value in line["values"].items():
                if isinstance(value, int | float):
                    by_metric.setdefault(f"{before}{name}", []).append((line["step"], float(value)))
        for name, points in by_metric.items():
            found.setdefault(name, []).append(Curve(one.row, one.seed, points))
    order = ("train/loss", "train/learning_rate")

    def rank(name: str) -> tuple[int, str]:
        return (order.index(name) if name in order else 2 if name.startswith("validation/") else 3, name)

    return {name: found[name] for name in sorted(found, key=rank)}
