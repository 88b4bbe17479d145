"""The plan of a grid as it was last run: which cells make which rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmk_experiments.records.atomic import read_json, write_json


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
class GridRecord:
    """What ``lmk run`` or ``lmk submit`` last made of a grid file."""

    name: str
    title: str
    trainings: list[TrainingRecord]
    rows: list[RowRecord]
    table: dict[str, Any] | None = None
    source: str = field(default="")

    def save(self, root: Path) -> None:
        """Write ``<root>/grids/<name>/grid.json``."""
        value = asdict(self)
        value["grid"] = value.pop("name")
        write_json(root / "grids" / self.name / "grid.json", {"schema": 1, **value})


def load_grid(root: Path, name: str) -> GridRecord:
    """The recorded plan of grid ``name`` under ``root``.

    Raises:
        ValueError: this root holds no such grid; the message lists those that are there.
    """
    known = list_grids(root)
    value = read_json(root / "grids" / name / "grid.json") if name in known else None
    if value is None:
        held = f"it holds: {', '.join(known)}" if known else "it holds none yet: `lmk run GRID` starts one"
        raise ValueError(f"no grid {name!r} was run under {root}; {held}")
    return GridRecord(
        name=value["grid"],
        title=value["title"],
        table=value.get("table"),
        source=value.get("source", ""),
        trainings=[TrainingRecord(**training) for training in value["trainings"]],
        rows=[RowRecord(**row) for row in value["rows"]],
    )


def list_grids(root: Path) -> list[str]:
    """The grids that were run under ``root``, sorted."""
    return sorted(path.parent.name for path in (root / "grids").glob("*/grid.json"))
