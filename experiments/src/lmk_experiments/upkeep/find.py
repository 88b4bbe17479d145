"""From what a user types to a cell, or to a row of a grid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmk_experiments.configs import explain
from lmk_experiments.elsewhere import is_elsewhere, rows_of
from lmk_experiments.records import (
    Cell,
    GridRecord,
    RowRecord,
    evaluation_cell,
    list_grids,
    load_grid,
    load_grids,
    training_cell,
)

_ID = re.compile(r"[0-9a-f]{4,12}")


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: for people: the row, its grid and seed, or the cell.
        kind: what it is; a row is one reading with all its evaluations.
        config: everything that was configured.
        scores: ``suite/task`` to metric to value, as recorded; of a training, ``last`` to its last metrics.
        states: suite to the state of an evaluation without scores.
    """

    name: str
    kind: Literal["row", "training", "evaluation"]
    config: dict[str, Any]
    scores: dict[str, dict[str, float]]
    states: dict[str, str]


def find_side(root: Path, typed: str, seed: int | None = None) -> Side:
    """What ``typed`` means under ``root``: ``ROW``, ``GRID/ROW``, or the first digits of a cell's identity.

    Args:
        seed: of a row; by default the first that the grid has.

    Raises:
        ValueError: it means nothing, or several things; the message lists what is there.
    """
    rows = _rows(root, typed, seed)
    if len({(row.training, *row.evaluations.items()) for _, row in rows}) > 1:
        names = ", ".join(f"{grid}/{row.row}" for grid, row in rows)
        raise ValueError(f"{typed!r} is a row of several grids; write one of: {names}")
    if rows:
        return _row_side(root, *rows[0])
    cells = _cells(root, typed)
    if len(cells) > 1:
        raise ValueError(f"{typed!r} begins the identity of several cells: {', '.join(cell.id for cell in cells)}")
    if cells:
        return _cell_side(cells[0])
    prefix = "{}/" if "/" in typed else ""
    grids = load_grids(root)[0]
    known = [f"{prefix.format(grid.name)}{row.row}" for grid in grids for row in (*grid.rows, *rows_of(grid))]
    of_seed = "" if seed is None else f" with seed {seed}"
    raise ValueError(f"no row{of_seed} and no cell {typed!r} under {root}; {explain(typed, dict.fromkeys(known))}")


def _rows(root: Path, typed: str, seed: int | None) -> list[tuple[str, RowRecord]]:
    """The row in each grid that has it, with the seed that was asked for."""
    grid, _, name = typed.rpartition("/")
    found = []
    if grid and grid in list_grids(root):
        load_grid(root, grid)  # where it cannot be read, that is the answer
    for held in load_grids(root)[0]:
        if grid in ("", held.name):
            rows = [row for row in held.rows if row.row == name and seed in (None, row.seed)]
            rows += [row for row in rows_of(held) if row.row == name]  # they have no seed
            found += [(held.name, row) for row in rows[:1]]
    return found


def _cells(root: Path, typed: str) -> list[Cell]:
    if not _ID.fullmatch(typed):
        return []
    found = [path for kind in ("trainings", "evaluations") for path in root.glob(f"{kind}/{typed}*/cell.json")]
    return [Cell(path.parent) for path in sorted(found)]


def _row_side(root: Path, grid: str, row: RowRecord) -> Side:
    if any(map(is_elsewhere, row.evaluations.values())):
        return _elsewhere_side(load_grid(root, grid), row)
    training = training_cell(root, row.training)
    cells = {suite: evaluation_cell(root, identity) for suite, identity in row.evaluations.items()}
    made = {suite: cell for suite, cell in cells.items() if (cell.folder / "cell.json").exists()}
    config = {
        "training": training.config,
        "reading": {
            "pooling": row.pooling,
            "max_length": {suite: cell.config.get("max_length") for suite, cell in made.items()},
        },
    }
    scores, states = _scores(cells.items())
    return Side(f"{row.row} of {grid}, seed {row.seed}, training {row.training}", "row", config, scores, states)


def _elsewhere_side(grid: GridRecord, row: RowRecord) -> Side:
    """A row from elsewhere: nothing is known of how it was made, and its scores are those that the record keeps."""
    (held,) = (one for one in grid.elsewhere if one.row == row.row)
    scores = {f"{suite}/{task}": values for suite, tasks in held.scores.items() for task, values in tasks.items()}
    states = {suite: f"no results of {', '.join(missing)}" for suite, missing in held.missing.items() if missing}
    return Side(f"{row.row} of {grid.name}, from {held.results}", "row", {"results": held.results}, scores, states)


def _cell_side(cell: Cell) -> Side:
    if cell.kind == "training":
        done = cell.done()
        last = {} if done is None else {"last": done.get("metrics", {})}
        states = {} if done is not None else {"last": str(cell.state())}
        return Side(f"training {cell.id}", "training", {"training": cell.config}, last, states)
    config = dict(cell.config)
    training = training_cell(cell.root, config.pop("training"))
    suite = config.pop("suite")
    described = {"training": training.config, "reading": config, "suite": suite}
    scores, states = _scores([(suite["name"], cell)])
    return Side(f"evaluation {cell.id} of training {training.id}", "evaluation", described, scores, states)


def _scores(cells: Iterable[tuple[str, Cell]]) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    scores: dict[str, dict[str, float]] = {}
    states: dict[str, str] = {}
    for suite, cell in cells:
        done = cell.done()
        if done is None:
            states[suite] = str(cell.state())
        else:
            scores |= {f"{suite}/{task}": held for task, held in done["scores"].items()}
    return scores, states
