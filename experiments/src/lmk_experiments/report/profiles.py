"""Quality over something that has an order: lengths of documents, places of the evidence, lengths of the training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lmk_experiments.elsewhere import rows_of
from lmk_experiments.records import GridRecord
from lmk_experiments.records.groups import parse_group
from lmk_experiments.tables import Comparing, Table, collect
from lmk_experiments.tables.given import grid_spec
from lmk_experiments.tables.source import Source
from lmk_experiments.tables.spec import Column, TableSpec
from lmk_experiments.tables.table import TableCell

_NUMBERED = re.compile(r"(?P<stem>.*?)[-_ ]*(?P<number>\d+)")
_NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")

_PREFERRED = ("main_score", "ndcg_at_10", "precision_at_1")


@dataclass(frozen=True)
class Line:
    """One row over the places: its cells, ``None`` where it has none there.

    Attributes:
        name: the grid's, or what a pivoted table's rows have in common.
        baseline: whether the others' differences are taken from it.
    """

    name: str
    baseline: bool
    cells: list[TableCell | None]


@dataclass(frozen=True)
class Profile:
    """One chart of rows over places.

    Attributes:
        title: of the chart; ``axis`` is what the places are.
        places: names of the places, in order.
    """

    title: str
    axis: str
    places: list[str]
    lines: list[Line]

    @property
    def drawn(self) -> bool:
        """Whether there is a value."""
        return any(cell is not None and cell.value is not None for line in self.lines for cell in line.cells)


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
    return [one for one in found if one.drawn]


def over_labels(record: GridRecord, source: Source) -> list[Profile]:
    """A table whose one label becomes columns and whose other one is a number: each column as lines over the number."""
    spec = grid_spec(record)
    if spec is None or spec.pivot is None or spec.rows is None or len(spec.labels) != 2:
        return []
    lines = spec.label_index(spec.pivot)
    numbers = [(row.labels or ())[-1 - lines] for row in spec.rows if len(row.labels or ()) == 2]
    if len(numbers) < len(spec.rows) or not all(_NUMBER.fullmatch(number) for number in numbers):
        return []
    places = sorted(dict.fromkeys(numbers), key=lambda number: float(number.replace(",", "")))
    plain = spec.model_copy(update={"pivot": None, "differences": False})
    table = collect(record, source, plain, tests=_tests(source))
    found = []
    for at, column in enumerate(table.columns):
        cells: dict[str, dict[str, TableCell]] = {}
        baselines = {row.labels[lines] for row in table.rows if row.baseline}
        for row in table.rows:
            cells.setdefault(row.labels[lines], {})[row.labels[1 - lines]] = row.cells[at]
        listed = [Line(name, name in baselines, [held.get(place) for place in places]) for name, held in cells.items()]
        title = ", ".join(filter(None, (*column.groups, column.title, column.detail, column.unit)))
        found.append(Profile(title, spec.labels[1 - lines].title, places, listed))
    return [one for one in found if one.drawn]


def _by_group(record: GridRecord, source: Source, suite: str, task: str, title: str) -> list[Profile]:
    held: dict[tuple[str, str], dict[str, str]] = {}
    for row in (*record.rows, *rows_of(record)):
        for metric in source.scores.get(row.evaluations.get(suite, ""), {}).get(task, {}):
            if group := parse_group(metric):
                held.setdefault((group.key, group.metric), {})[group.value] = metric
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


def _names(held: dict[tuple[str, str], dict[str, str]], key: str) -> list[str]:
    return [name for other, name in held if other == key]


def _profile(
    record: GridRecord, source: Source, suite: str, title: str, axis: str, places: Sequence[tuple[str, str, str]]
) -> Profile:
    """The rows at the places, each a name, a task and a metric: a table of its own, tested as the grid's is."""
    columns = tuple(Column(title=name, suite=suite, task=task, metric=metric) for name, task, metric in places)
    table: Table = collect(record, source, _spec(record, columns), tests=_tests(source))
    listed = [Line(row.name, row.baseline, list(row.cells)) for row in table.rows]
    return Profile(title, axis, [name for name, _, _ in places], listed)


def _spec(record: GridRecord, columns: tuple[Column, ...]) -> TableSpec:
    """All rows of the grid; where its table compares rows within blocks, those of the table, compared within these."""
    spec = grid_spec(record)
    if spec is None or spec.within is None:
        return TableSpec(columns=columns)
    return TableSpec(columns=columns, rows=spec.rows, labels=spec.labels, within=spec.within)


def _tests(source: Source) -> Comparing | None:
    return Comparing(intervals=True) if source.scores else None
