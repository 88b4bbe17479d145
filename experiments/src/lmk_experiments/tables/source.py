"""Where a table's numbers come from: the records, or MLflow."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmk_experiments.elsewhere import scores_of
from lmk_experiments.mirror.read import Scores, Seen, read_scores
from lmk_experiments.records import GridRecord, RowRecord, State, evaluation_cell, training_cell
from lmk_experiments.tables.spec import Column

Origin = Literal["records", "mlflow"]

REASON_LENGTH = 48
"""Of a failure's reason a table shows this many characters at most."""


@dataclass(frozen=True)
class Source:
    """The scores of a grid's evaluations and the state of those that have none.

    Attributes:
        name: said under the table.
        scores: evaluation id to task to metric to value.
        states: evaluation id to a few words, for every evaluation without scores.
        tasks: suite name to its tasks, in the suite's order, as far as they are known.
        titles: suite name to its title.
        root: where the evaluations' folders are.
    """

    name: str
    scores: dict[str, Scores]
    states: dict[str, str]
    tasks: dict[str, list[str]]
    titles: dict[str, str]
    root: Path


def tasks_of(column: Column, source: Source) -> list[str]:
    """The tasks whose mean a column of scores is."""
    if column.task is None:
        return source.tasks.get(column.suite or "", [])
    return [column.task] if isinstance(column.task, str) else list(column.task)


def load_source(
    root: Path, grid: GridRecord, origin: Origin = "records", *, uri: str | None = None, seen: Seen | None = None
) -> Source:
    """The numbers of ``grid``. Whether an evaluation is finished is the records' word, whatever the origin.

    Args:
        seen: of origin ``mlflow``, what a sync has just read there.

    Raises:
        StoreError: of origin ``mlflow``, where the store cannot be used.
    """
    root = root.resolve()
    done: dict[str, Scores] = {}
    states: dict[str, str] = {}
    for row in grid.rows:
        for identity in row.evaluations.values():
            record = evaluation_cell(root, identity).done()
            if record is None:
                states[identity] = _state(root, row, identity)
            else:
                done[identity] = {task: _floats(scores) for task, scores in record["scores"].items()}
    tasks, titles = _suites(root, grid, done)
    others = scores_of(grid)
    if origin == "records":
        return Source("the records", {**done, **others}, states, tasks, titles, root)
    mirrored = {
        identity: scores for identity, scores in read_scores(root, grid, uri=uri, seen=seen).items() if identity in done
    }
    states |= {identity: "done, not in MLflow" for identity in done if identity not in mirrored}
    return Source("MLflow", {**mirrored, **others}, states, tasks, titles, root)


def _floats(scores: dict[str, float]) -> dict[str, float]:
    return {metric: float(value) for metric, value in scores.items()}


def _state(root: Path, row: RowRecord, identity: str) -> str:
    """The state of an unfinished evaluation, or that of the training or pre-training it waits for."""
    own = evaluation_cell(root, identity).state()
    if own.name in ("planned", "queued"):
        cell = training_cell(root, row.training)
        training = cell.state()
        if training.name not in ("planned", "queued", "done"):
            return f"training {_words(training)}"
        first = cell.waits_for() if training.name != "done" else None
        if first is not None and (before := first.state()).name not in ("planned", "queued", "done"):
            return f"pre-training {_words(before)}"
    return _words(own)


def _words(state: State) -> str:
    if state.name == "running" and state.total:
        return f"running {state.done}/{state.total}"
    if state.name != "failed" or not state.reason:
        return state.name
    # A cell of a table has no room for a whole message; `lmk status` has.
    return f"failed ({textwrap.shorten(state.reason, REASON_LENGTH, placeholder=' ...')})"


def _suites(root: Path, grid: GridRecord, done: dict[str, Scores]) -> tuple[dict[str, list[str]], dict[str, str]]:
    tasks: dict[str, list[str]] = {}
    titles: dict[str, str] = {}
    for row in grid.rows:
        for suite, identity in row.evaluations.items():
            if suite in titles:
                continue
            try:
                config = evaluation_cell(root, identity).config["suite"]
                names = [str(task["name"]) for task in config.get("tasks", ())]
                titles[suite] = str(config.get("title") or suite)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # not made yet, or not readable: another evaluation on this suite, or the scores, may tell
            tasks[suite] = names
    for row in grid.rows:
        for suite, identity in row.evaluations.items():
            known = tasks.setdefault(suite, [])
            known += [task for task in done.get(identity, {}) if task not in known]
            titles.setdefault(suite, suite)
    return tasks, titles
