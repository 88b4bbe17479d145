"""The state of a grid's cells, as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lmk_experiments.cli.columns import columns
from lmk_experiments.records import GridRecord
from lmk_experiments.records.attempts import SAID
from lmk_experiments.records.claim import heartbeat
from lmk_experiments.submit.states import CellState, GridStates

STATE_CHARACTERS = 80
"""A longer state is cut in the table: ``lmk tail`` and ``--json`` have all of it."""


def status_text(record: GridRecord, states: GridStates, root: Path) -> str:
    """The table of states; where a scheduler is at work also jobs and logs."""
    table = [["cell", "row", "suite", "state", "attempts", "folder"]]
    submitted = any(one.job for one in states.cells)
    if submitted:
        table[0] += ["tokens/s", "GPU h", "job", "log"]
    for one in states.cells:
        folder = str(one.cell.folder.relative_to(root))
        state = str(one.state)
        state = state if len(state) <= STATE_CHARACTERS else state[: STATE_CHARACTERS - 3] + "..."
        line = [one.kind, f"{one.row}, seed {one.seed}", one.suite, state, _starts(one), folder]
        table.append([*line, *_of_job(one, root)] if submitted else line)
    spent = f", {_hours(states.gpu_hours, states.estimate)} GPU hours" if submitted else ""
    text = f"{record.name}: {states.done} of {len(states.cells)} cells done{spent}\n\n{columns(table)}"
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
            "active": one.active,
            "attempts": one.state.attempts,
            "starts": [{**asdict(start), "seconds": round(start.seconds(one.alive), 1)} for start in one.starts],
            "heartbeat": heartbeat(one.cell.folder) or None,
            "gpu_hours": round(one.gpu_hours, 4),
            "gpu_hours_estimated": one.estimate,
            "tokens_per_second": one.tokens_per_second if one.kind == "training" else None,
            "job": None if one.job is None else one.job.id,
            "log": None if one.log is None else str(one.log),
            "folder": str(one.cell.folder),
        }
        for one in states.cells
    ]
    return {
        "grid": record.name,
        "done": states.done,
        "gpu_hours": round(states.gpu_hours, 4),
        "gpu_hours_estimated": states.estimate,
        "cells": cells,
        "elsewhere": [{"row": one.row, "results": one.results, "missing": one.missing} for one in record.elsewhere],
        "warning": states.warning,
    }


def _of_job(one: CellState, root: Path) -> list[str]:
    speed = one.tokens_per_second if one.kind == "training" else None
    log = one.log
    shown = "" if log is None else str(log.relative_to(root) if log.is_relative_to(root) else log)
    hours = _hours(one.gpu_hours, one.estimate) if one.starts or one.helpers else ""
    return ["" if speed is None else f"{speed:,.0f}", hours, "" if one.job is None else one.job.id, shown]


def _starts(one: CellState) -> str:
    """How often it was started, and how the earlier ones ended: ``3 (2 pushed out)``."""
    ends = Counter(start.end for start in one.starts[:-1])
    told = ", ".join(f"{number} {SAID[end]}" for end, number in ends.items() if end in SAID)
    return f"{one.state.attempts} ({told})" if told else str(one.state.attempts)


def _hours(used: float, estimate: float | None) -> str:
    return f"{used:.2f}" if estimate is None else f"{used:.2f} of {estimate:.2f}"
