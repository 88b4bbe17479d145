"""What a report shows of a grid, read from its records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from lmk_experiments.costs import PlanCosts
from lmk_experiments.elsewhere import rows_of
from lmk_experiments.jobs.shares import share_starts
from lmk_experiments.mirror.store import without_credentials
from lmk_experiments.records import Cell, GridRecord, Listed, State, list_cells, read_json
from lmk_experiments.records.attempts import Attempt, starts_of
from lmk_experiments.records.figures import has_table
from lmk_experiments.tables import Comparing, Table, collect, load_source
from lmk_experiments.tables.source import Source

_NUMBERED = re.compile(r"(?P<stem>.*?)[-_ ]*(?P<number>\d+)")
_GROUP = re.compile(r"(?P<metric>[^\[\]]+)\[(?P<key>[^\[\]=]+)=(?P<value>[^\[\]]+)\]")

_PREFERRED = ("main_score", "ndcg_at_10", "precision_at_1")


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
class Profile:
    """Quality over something that has an order: lengths of documents, or places of the evidence.

    Attributes:
        title: of the chart; ``axis`` is what the places are.
        places: names of the places, in order.
        values: row to its values at the places (mean over seeds), ``None`` where there is none.
    """

    title: str
    axis: str
    places: list[str]
    values: dict[str, list[float | None]]


@dataclass(frozen=True)
class Gathered:
    """Everything of a report.

    Attributes:
        table: ``None`` where the grid has no rows.
        costs: the estimate; ``None`` where the grid file cannot be planned any more, and ``no_costs`` says why.
        curves: metric to the trainings' curves.
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
    shown = profiles(record, source)
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


def profiles(record: GridRecord, source: Source) -> list[Profile]:
    """Quality against length (numbered tasks of a suite, or numbered splits of a task) and against place (groups)."""
    found: list[Profile] = []
    for suite, tasks in source.tasks.items():
        title = source.titles.get(suite, suite)
        stems: dict[str, dict[int, str]] = {}
        for task in tasks:
            if match := _NUMBERED.fullmatch(task):
                stems.setdefault(match["stem"], {})[int(match["number"])] = task
        for stem, numbered in stems.items():
            if len(numbered) > 1:
                places = [(f"{number:,}", numbered[number], "main_score") for number in sorted(numbered)]
                found.append(_profile(record, source, suite, f"{title}: {stem}", "length", places))
        for task in tasks:
            found += _by_group(record, source, suite, task, title)
    return [one for one in found if any(value is not None for values in one.values.values() for value in values)]


def _by_group(record: GridRecord, source: Source, suite: str, task: str, title: str) -> list[Profile]:
    held: dict[tuple[str, str], dict[str, str]] = {}
    for row in (*record.rows, *rows_of(record)):
        for metric in source.scores.get(row.evaluations.get(suite, ""), {}).get(task, {}):
            if match := _GROUP.fullmatch(metric):
                held.setdefault((match["key"], match["metric"]), {})[match["value"]] = metric
    found = []
    for key in dict.fromkeys(key for key, _ in held):
        metric = next(name for name in (*_PREFERRED, *_names(held, key)) if (key, name) in held)
        values = held[key, metric]
        numbers = {value: match for value in values if (match := _NUMBERED.fullmatch(value))}
        if len(values) < 2 or (key in ("split", "subset") and len(numbers) < len(values)):
            continue
        ordered = sorted(values, key=lambda value: (int(numbers[value]["number"]) if value in numbers else 0, value))
        axis = "length" if key == "split" else key
        places = [(numbers[v]["number"] if v in numbers else v, task, values[v]) for v in ordered]
        found.append(_profile(record, source, suite, f"{title}: {task}, by {axis}", axis, places))
    return found


def _names(held: Mapping[tuple[str, str], Any], key: str) -> list[str]:
    return [name for other, name in held if other == key]


def _profile(
    record: GridRecord, source: Source, suite: str, title: str, axis: str, places: list[tuple[str, str, str]]
) -> Profile:
    values: dict[str, list[float | None]] = {}
    rows = (*record.rows, *rows_of(record))
    for name in dict.fromkeys(row.row for row in rows):
        seeds = [row for row in rows if row.row == name]
        line: list[float | None] = []
        for _, task, metric in places:
            scores = [source.scores.get(seed.evaluations.get(suite, ""), {}).get(task, {}) for seed in seeds]
            held = [100 * one[metric] for one in scores if metric in one]
            line.append(sum(held) / len(held) if held else None)
        values[name] = line
    return Profile(title, axis, [place for place, _, _ in places], values)
