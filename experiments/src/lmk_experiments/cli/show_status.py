"""The state of a grid's cells, as text."""

from __future__ import annotations

from pathlib import Path

from lmk_experiments.cli.columns import columns
from lmk_experiments.records import Cell, GridRecord, State, evaluation_cell, training_cell


def status_text(record: GridRecord, root: Path) -> tuple[str, bool]:
    """The table of states, and whether every cell is done."""
    table = [["cell", "row", "suite", "state", "attempts", "folder"]]
    states = []
    for training in record.trainings:
        cell = training_cell(root, training.id)
        state = cell.state()
        states.append(state)
        table.append(_line("training", training.row, training.seed, "", state, cell, root))
    for row in record.rows:
        for suite, identity in row.evaluations.items():
            cell = evaluation_cell(root, identity)
            state = cell.state()
            states.append(state)
            table.append(_line("evaluation", row.row, row.seed, suite, state, cell, root))
    done = sum(state.name == "done" for state in states)
    text = f"{record.name}: {done} of {len(states)} cells done\n\n{columns(table)}"
    return text, done == len(states)


def _line(kind: str, row: str, seed: int, suite: str, state: State, cell: Cell, root: Path) -> list[str]:
    folder = str(cell.folder.relative_to(root))
    return [kind, f"{row}, seed {seed}", suite, str(state), str(state.attempts), folder]
