"""The plan of a grid as it was last run: which cells make which rows."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from lmk_experiments.records.atomic import read_record, write_json
from lmk_experiments.records.cell import is_identity, pretraining_cell, training_cell
from lmk_experiments.records.shapes import (
    FLAG,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    WHOLE,
    RecordError,
    Shape,
    checked,
    checked_values,
)

_PREPARING = "preparing.json"
_NOTE: Shape = {"what": TEXT, "host": TEXT, "pid": WHOLE}
_GRID: Shape = {"grid": TEXT, "title": TEXT, "trainings": LIST, "rows": LIST}
_TRAINING: Shape = {"id": TEXT, "row": TEXT, "seed": WHOLE}
_ROW: Shape = {
    "row": TEXT, "seed": WHOLE, "training": TEXT, "pooling": OBJECT, "baseline": FLAG, "evaluations": OBJECT,
}  # fmt: skip

_ANALYSIS: Shape = {"id": TEXT, "row": TEXT, "seed": WHOLE, "kind": TEXT, "title": TEXT, "trainings": LIST}
_ELSEWHERE: Shape = {"row": TEXT, "results": TEXT, "scores": OBJECT, "missing": OBJECT}


@dataclass(frozen=True)
class TrainingRecord:
    """One training of a grid."""

    id: str
    row: str
    seed: int


@dataclass(frozen=True)
class RowRecord:
    """One row of the table: a reading of one training."""

    row: str
    seed: int
    training: str
    pooling: dict[str, Any]
    baseline: bool
    evaluations: dict[str, str]
    """Suite name to the identity of the evaluation."""


@dataclass(frozen=True)
class ElsewhereRecord:
    """A row whose results were made elsewhere, as they were read when the grid was last run."""

    row: str
    results: str
    """The folder that was read."""
    scores: dict[str, dict[str, dict[str, float]]]
    """Suite name to task to metric to value, for the tasks that are there."""
    missing: dict[str, list[str]]
    """Suite name to what is not there."""


@dataclass(frozen=True)
class AnalysisRecord:
    """One analysis of a grid."""

    id: str
    row: str
    """Its name."""
    seed: int
    kind: str
    title: str
    trainings: list[str]
    """The identities of the trainings that it looks at."""


@dataclass(frozen=True)
class GridRecord:
    """What ``lmk run`` or ``lmk submit`` last made of a grid file."""

    name: str
    title: str
    trainings: list[TrainingRecord]
    rows: list[RowRecord]
    table: dict[str, Any] | None = None
    source: str = field(default="")
    elsewhere: list[ElsewhereRecord] = field(default_factory=list)
    pretrainings: list[TrainingRecord] = field(default_factory=list)
    """What some of the trainings start from, each under the first row that does."""
    analyses: list[AnalysisRecord] = field(default_factory=list)

    def save(self, root: Path) -> None:
        """Write ``<root>/grids/<name>/grid.json``."""
        value = asdict(self)
        value["grid"] = value.pop("name")
        write_json(root / "grids" / self.name / "grid.json", {"schema": 1, **value})


def load_grid(root: Path, name: str) -> GridRecord:
    """The recorded plan of grid ``name`` under ``root``.

    Raises:
        GridPreparing: it was started, and its cells are not known yet.
        ValueError: this root holds no such grid; the message lists those that are there. Or its file cannot be read;
            the message names file and key.
    """
    known = list_grids(root)
    path = root / "grids" / name / "grid.json"
    value = read_record(path, _GRID) if name in known else None
    if value is None:
        _check_preparing(root, name)
        held = (
            f"it holds: {', '.join(known)}"
            if known
            else "it holds none yet: `lmk run GRID` starts one, `lmk submit GRID` on a cluster"
        )
        raise ValueError(f"no grid {name!r} was run under {root}; {held} (another root: --root or LMK_ROOT)")
    return GridRecord(
        name=value["grid"],
        title=value["title"],
        table=value.get("table"),
        source=value.get("source", ""),
        pretrainings=[
            TrainingRecord(**_part(one, _TRAINING, f"{path}: pretrainings[{index}]"))
            for index, one in enumerate(value.get("pretrainings") or [])
        ],
        trainings=[
            TrainingRecord(**_part(one, _TRAINING, f"{path}: trainings[{index}]"))
            for index, one in enumerate(value["trainings"])
        ],
        rows=[RowRecord(**_part(one, _ROW, f"{path}: rows[{index}]")) for index, one in enumerate(value["rows"])],
        analyses=[
            AnalysisRecord(**_part(one, _ANALYSIS, f"{path}: analyses[{index}]"))
            for index, one in enumerate(value.get("analyses") or [])
        ],
        elsewhere=[_elsewhere(one, f"{path}: elsewhere[{index}]") for index, one in enumerate(_listed(value, path))],
    )


def _listed(value: dict[str, Any], path: Path) -> list[Any]:
    return checked({"elsewhere": [], **value}, {"elsewhere": LIST}, str(path))["elsewhere"]


def _elsewhere(value: Any, place: str) -> ElsewhereRecord:
    held = _part(value, _ELSEWHERE, place)
    checked_values(held["missing"], LIST, f"{place}.missing")
    checked_values(held["scores"], OBJECT, f"{place}.scores")
    for suite, tasks in held["scores"].items():
        checked_values(tasks, OBJECT, f"{place}.scores.{suite}")
        for task, values in tasks.items():
            checked_values(values, NUMBER, f"{place}.scores.{suite}.{task}")
    return ElsewhereRecord(**held)


def pretrainings_in_use(record: GridRecord, root: Path) -> list[TrainingRecord]:
    """The grid's pre-trainings, but for those that have served and whose folders are gone: nobody makes them again."""
    gone = {
        first.id
        for first in record.pretrainings
        if not (pretraining_cell(root, first.id).folder / "cell.json").exists()
    }
    if gone:
        cells = [training_cell(root, one.id) for one in record.trainings]
        gone -= {before.id for cell in cells if cell.done() is None and (before := cell.waits_for()) is not None}
    return [first for first in record.pretrainings if first.id not in gone]


class GridPreparing(ValueError):
    """The cells of a grid are not known yet: it has just been started."""


@contextlib.contextmanager
def preparing(root: Path, name: str, what: str) -> Generator[None]:
    """While this lasts, who asks for grid ``name`` is told ``what`` is being done for it."""
    path = root / "grids" / name / _PREPARING
    write_json(path, {"what": what, "host": socket.gethostname(), "pid": os.getpid()})
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _check_preparing(root: Path, name: str) -> None:
    try:
        note = read_record(root / "grids" / name / _PREPARING, _NOTE)
    except ValueError:
        return
    if note is not None and (note["host"] != socket.gethostname() or psutil.pid_exists(note["pid"])):
        by = f"process {note['pid']} on {note['host']}"
        raise GridPreparing(f"{name}: {note['what']} ({by}); its cells are known when that is done")


def load_grids(root: Path) -> tuple[list[GridRecord], list[str]]:
    """Every recorded grid under ``root`` that can be read, and why others cannot, each by its file."""
    found: list[GridRecord] = []
    unreadable: list[str] = []
    for name in list_grids(root):
        try:
            found.append(load_grid(root, name))
        except ValueError as error:
            unreadable.append(f"grid {name} is left out: {error}")
    return found, unreadable


def list_grids(root: Path) -> list[str]:
    """The grids that were run under ``root``, sorted."""
    return sorted(path.parent.name for path in (root / "grids").glob("*/grid.json"))


def _part(value: Any, shape: Shape, place: str) -> dict[str, Any]:
    """The keys of ``shape`` alone: what a later version has added is left out."""
    part = {key: checked(value, shape, place)[key] for key in shape}
    checked_values(part.get("evaluations", {}), TEXT, f"{place}.evaluations")
    for identity in (
        part.get("id"),
        part.get("training"),
        *part.get("evaluations", {}).values(),
        *part.get("trainings", []),
    ):
        if identity is not None and not is_identity(identity):
            raise RecordError(f"{place}: {identity!r} is not a cell's identity: 12 hex digits are")
    return part
