"""Every cell of a recorded grid, in the order in which they are worked on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.records.cell import (
    Cell,
    Kind,
    analysis_cell,
    evaluation_cell,
    pretraining_cell,
    training_cell,
)
from lmk_experiments.records.grid import GridRecord, pretrainings_in_use


@dataclass(frozen=True)
class Listed:
    """One cell and its place in the grid; one that several rows read stands there for each of them."""

    cell: Cell
    kind: Kind
    row: str
    seed: int
    suite: str = ""
    """Of an evaluation."""


def list_cells(record: GridRecord, root: Path) -> list[Listed]:
    """Pre-trainings that are there or needed, trainings, evaluations by row and suite, analyses."""
    first = pretrainings_in_use(record, root)
    found = [Listed(pretraining_cell(root, one.id), "pretraining", one.row, one.seed) for one in first]
    found += [Listed(training_cell(root, one.id), "training", one.row, one.seed) for one in record.trainings]
    found += [
        Listed(evaluation_cell(root, identity), "evaluation", row.row, row.seed, suite)
        for row in record.rows
        for suite, identity in row.evaluations.items()
    ]
    found += [Listed(analysis_cell(root, one.id), "analysis", one.row, one.seed) for one in record.analyses]
    return found
