"""The state of a grid's cells, as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_experiments.cli.columns import columns
from lmk_experiments.records import GridRecord
from lmk_experiments.submit.states import CellState, GridStates

STATE_CHARACTERS = 80
"""A longer state is cut in the table: ``lmk tail`` and ``--json`` have all of it."""


def status_text(record: GridRecord, states: GridStates, root: Path) -> str:
    """The table of states; where a scheduler is at work also jobs and logs."""
    table = [["cell", "row", "suite", "state", "attempts", "folder"]]
    submitted = any(one.job for one in states.cells)
    if submitted:
        table[0] += ["tokens/s", "job", "log"]
    for one in states.cells:
        folder = str(one.cell.folder.relative_to(root))
        state = str(one.state)
        state = state if len(state) <= STATE_CHARACTERS else state[: STATE_CHARACTERS - 3] + "..."
        line = [one.kind, f"{one.row}, seed {one.seed}", one.suite, state, str(one.state.attempts), folder]
        table.append([*line, *_of_job(one, root)] if submitted else line)
    text = f"{record.name}: {states.done} of {len(states.cells)} cells done\n\n{columns(table)}"
    return "\n".join([text, *_elsewhere(record)])


def _elsewhere(record: GridRecord) -> list[str]:
    """A line for each row whose results were made elsewhere: there is nothing to do for it."""
    lines = [""] if record.elsewhere else []
    for one in record.elsewhere:
        found, missing = sum(map(len, one.scores.values())), sum(map(len, one.missing.values()))
        lines.append(f"{one.row}: from elsewhere, {found} of {found + missing} tasks, {one.results}")
    return lines


def status_json(record: GridRecord, states: GridStates) -> dict[str, Any]:
    """The same for programs."""
    cells = [
        {
            "kind": one.kind,
            "row": one.row,
            "seed": one.seed,
            "suite": one.suite,
            "id": one.cell.id,
            "state": one.state.name,
            "reason": one.state.reason,
            "done": one.state.done,
            "total": one.state.total,
            "unit": one.state.unit,
            "seconds_left": one.state.seconds_left,
            "attempts": one.state.attempts,
            "tokens_per_second": one.tokens_per_second if one.kind == "training" else None,
            "job": None if one.job is None else one.job.id,
            "log": None if one.log is None else str(one.log),
            "folder": str(one.cell.folder),
        }
        for one in states.cells
    ]
    elsewhere = [{"row": one.row, "results": one.results, "missing": one.missing} for one in record.elsewhere]
    done = {"grid": record.name, "done": states.done, "cells": cells, "warning": states.warning}
    return {**done, "elsewhere": elsewhere}


def _of_job(one: CellState, root: Path) -> list[str]:
    speed = one.tokens_per_second if one.kind == "training" else None
    log = one.log
    shown = "" if log is None else str(log.relative_to(root) if log.is_relative_to(root) else log)
    return ["" if speed is None else f"{speed:,.0f}", "" if one.job is None else one.job.id, shown]
