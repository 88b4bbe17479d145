"""What the mirror should hold of a cell, worked out from its records alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from lmk_experiments.mirror.names import MAX_NAME, cut, fitting, flatten, path_name, score_name
from lmk_experiments.mirror.store import Kind
from lmk_experiments.records import Cell, GridRecord, State, evaluation_cell, pretraining_cell, training_cell

Status = Literal["SCHEDULED", "RUNNING", "FINISHED", "FAILED", "KILLED"]
MAX_SCORES = 60
"""Scores of a run that become metrics; all of them are in the artifact ``scores.json``."""

MAX_TAG = 5000
"""Characters in a tag, less than any MLflow's limit, beyond which it would cut without a word."""
_FIRST_METRICS = ("main_score", "ndcg_at_10")
_STOPPED = ("stopped", "interrupted", "cancelled", "canceled", "killed", "preempted", "lost")


@dataclass
class Place:
    """Where a cell stands in the grids of a root.

    Attributes:
        rows: the rows that use it, by grid and row, in the grids' order.
        suite: of an evaluation, the suite's name.
        is_pretraining: whether this training comes before another.
    """

    id: str
    kind: Kind
    seed: int
    suite: str | None = None
    is_pretraining: bool = False
    grids: set[str] = field(default_factory=set)
    rows: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The name of its run."""
        row = self.rows[0] if self.rows else self.id
        name = row if self.suite is None else f"{row} / {self.suite}"
        name = f"{name} / pre-training" if self.is_pretraining else name
        return f"{name} / seed {self.seed}" if self.seed else name


@dataclass(frozen=True)
class Wanted:
    """What a cell's run should hold.

    Attributes:
        start, end: milliseconds since 1970; ``end`` is ``None`` while it runs.
        scores: the metrics of an evaluation, by their name in MLflow.
        artifacts: file name to text.
    """

    place: Place
    cell: Cell
    tags: dict[str, str]
    params: dict[str, str]
    status: Status
    start: int
    end: int | None
    scores: dict[str, float]
    artifacts: dict[str, str]


def places(grids: Iterable[GridRecord]) -> dict[tuple[Kind, str], Place]:
    """Every cell of the grids, once, whoever shares it."""
    found: dict[tuple[Kind, str], Place] = {}

    def add(kind: Kind, identity: str, seed: int, row: str, grid: str, suite: str | None = None) -> None:
        place = found.setdefault((kind, identity), Place(identity, kind, seed, suite))
        place.grids.add(grid)
        if row not in place.rows:
            place.rows.append(row)

    for grid in grids:
        for first in grid.pretrainings:
            add("training", first.id, first.seed, first.row, grid.name)
            found["training", first.id].is_pretraining = True
        for training in grid.trainings:
            add("training", training.id, training.seed, training.row, grid.name)
        for row in grid.rows:
            for suite, identity in row.evaluations.items():
                add("evaluation", identity, row.seed, row.row, grid.name, suite)
    return found


def wanted(root: Path, place: Place) -> Wanted | None:
    """What MLflow should hold of the cell at ``place``; ``None`` while it was not started."""
    cell = _cell(root, place)
    if not (cell.folder / "cell.json").exists():
        return None
    done, state, events = cell.done(), cell.state(), cell.events()
    if done is None and state.name in ("planned", "queued"):
        return None
    tags = {
        "lmk.cell": place.id,
        "lmk.kind": "pretraining" if place.is_pretraining else place.kind,
        "lmk.row": cut(",".join(place.rows)),
        "lmk.grids": cut(",".join(sorted(place.grids)), MAX_TAG),
        "lmk.seed": str(place.seed),
        "lmk.root": str(root),
        "lmk.attempts": str(state.attempts),
    }
    artifacts = {"cell.json": _json(cell.record)}
    scores: dict[str, float] = {}
    if place.suite is not None:
        training = str(cell.config.get("training", ""))
        tags |= {"lmk.suite": place.suite, "lmk.training": training}
        if done is not None:
            scores = score_metrics(place.suite, done["scores"])
            tags["lmk.scores"] = str(sum(map(len, done["scores"].values())))
            artifacts["scores.json"] = _json(done["scores"])
    params = {path_name(key): text for key, text in flatten(cell.config).items()}
    if short := _cut_short(params, len(scores), int(tags.get("lmk.scores", "0"))):
        tags["lmk.cut"] = short
    return Wanted(
        place,
        cell,
        tags,
        {fitting(key): cut(text) for key, text in params.items()},
        "FINISHED" if done is not None else run_status(state),
        _start(cell, events),
        _end(state, done, events),
        scores,
        artifacts,
    )


def _cut_short(params: Mapping[str, str], scores: int, of: int) -> str:
    """What MLflow's parameters and metrics do not hold whole, and the artifact that does; nothing where they do."""
    long = [key for key, text in params.items() if len(key) > MAX_NAME or cut(text) != text]
    said = [f"parameters, whole in cell.json: {', '.join(long)}"] if long else []
    said += [f"{scores} of {of} scores, all in scores.json"] if scores < of else []
    return cut("; ".join(said), MAX_TAG)


def _cell(root: Path, place: Place) -> Cell:
    if place.is_pretraining:
        return pretraining_cell(root, place.id)
    return (training_cell if place.kind == "training" else evaluation_cell)(root, place.id)


def run_status(state: State) -> Status:
    """MLflow's word for a state of the records.

    >>> run_status(State("failed", "stopped without a word")), run_status(State("failed", "out of memory"))
    ('KILLED', 'FAILED')
    """
    if state.name == "done":
        return "FINISHED"
    if state.name == "running":
        return "RUNNING"
    if state.name in ("preempted", "stopped") or state.reason.lower().startswith(_STOPPED):
        return "KILLED"
    return "FAILED"


def score_metrics(suite: str, scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The scores that become metrics: at most ``MAX_SCORES``, every task's main scores before any other."""
    ranked = sorted(
        (_FIRST_METRICS.index(metric) if metric in _FIRST_METRICS else len(_FIRST_METRICS), order, metric, task)
        for order, task in enumerate(scores)
        for metric in scores[task]
    )
    named = ((score_name(suite, task, metric), float(scores[task][metric])) for _, _, metric, task in ranked)
    return dict([item for item in named if len(item[0]) <= MAX_NAME][:MAX_SCORES])


def milliseconds(seconds: float) -> int:
    """Unix seconds as MLflow's milliseconds; always the same for the same record."""
    return round(seconds * 1000)


def _start(cell: Cell, events: list[dict[str, Any]]) -> int:
    times = [event["time"] for event in events if event["event"] == "attempt"]
    return milliseconds(times[0] if times else _iso(cell.record["created"]))


def _end(state: State, done: dict[str, Any] | None, events: list[dict[str, Any]]) -> int | None:
    if done is not None:
        # `finished` has whole seconds: alone it would end a short cell before it began.
        times = [event["time"] for event in events if event["event"] == "attempt"]
        return milliseconds(times[-1] + done["seconds"] if times else _iso(done["finished"]))
    if state.name == "running" or not events:
        return None
    return milliseconds(events[-1]["time"])


def _iso(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
