"""``lmk tail`` and ``lmk cancel``: one row of a grid on the scheduler, or all."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from lmk_experiments.cli.columns import columns
from lmk_experiments.cli.grid_names import grid_name
from lmk_experiments.configs import explain
from lmk_experiments.records import GridRecord, list_cells, load_grid, load_grids, training_cell
from lmk_experiments.submit.states import CellState, grid_states, share_jobs

_SECONDS = 1.0


def show_tail(
    grid: str, row: str, root: Path, *, suite: str | None, seed: int | None, lines: int, follow: bool
) -> None:
    """Print the end of one cell's log, and go on while it has not ended if asked to."""
    from lmk_slurm.logs import tail

    record = load_grid(root, grid_name(grid))
    one = _choose(record, root, row, suite, seed)
    log = one.log
    typer.echo(f"{one.kind} {one.row}, seed {one.seed}{f', {one.suite}' if one.suite else ''}: {one.state}", err=True)
    if log is None or not log.exists():
        where = f"; it will be {log}" if log is not None else ""
        typer.echo(f"there is no log yet{where}", err=True)
    else:
        typer.echo(f"{log}:", err=True)
        typer.echo(tail(log, lines))
    if not follow:
        return
    position = log.stat().st_size if log is not None and log.exists() else 0
    while True:
        one = _choose(record, root, row, suite, seed)
        position = _print_from(log, position)
        if one.log != log:  # its pre-training is done and it has begun, or it was submitted again
            log = one.log
            typer.echo(f"{log}:", err=True)
            position = _print_from(log, 0)
        if not one.active:
            typer.echo(f"{one.state}", err=True)
            return
        time.sleep(_SECONDS)


def _print_from(log: Path | None, position: int) -> int:
    """Print what a log holds behind a place; the place to go on from."""
    if log is None or not log.exists():
        return position
    with log.open("rb") as file:
        file.seek(position)
        new = file.read()
    typer.echo(new.decode(errors="replace"), nl=False)
    return position + len(new)


def cancel_jobs(grid: str, row: str | None, root: Path, *, yes: bool) -> None:
    """Cancel the jobs of a grid, or of one row with what waits for them, after asking."""
    from lmk_slurm.scheduler import cancel

    record = load_grid(root, grid_name(grid))
    states = grid_states(record, root)
    if states.warning:
        raise ValueError(states.warning)
    cells = states.cells if row is None else _of_row(record, root, states.cells, row)
    jobs: dict[str, str] = {}
    for one in cells:
        if one.job is not None and one.active:
            jobs[one.job.id] = one.job.job
    jobs |= share_jobs(cells)
    if not jobs:
        typer.echo(f"{record.name}: no job of {row or 'this grid'} is queued or runs")
        return
    counts = {
        identity: sum(cell.job is not None and cell.job.id == identity for cell in states.cells) for identity in jobs
    }
    table = [["job", "id", "cells"], *([jobs[id_], id_, str(counts[id_])] for id_ in sorted(jobs, key=_order))]
    typer.echo(columns(table))
    for other, names in _shared(record, root, cells, jobs).items():
        typer.echo(f"grid {other} waits for these too: {', '.join(names)}")
    if not yes:
        typer.confirm(f"Cancel these {len(jobs)} jobs?", abort=True)
    cancel(list(jobs))
    typer.echo(f"cancelled {len(jobs)} jobs; what is done and what was saved stays, and `lmk submit` goes on")


def _choose(record: GridRecord, root: Path, row: str, suite: str | None, seed: int | None) -> CellState:
    """The cell that is meant: the training of a row, or its evaluation on a suite; or an analysis by its name.

    While the pre-training that a training starts from is not done, it is that one: there is nothing else to see.
    """
    cells = grid_states(record, root).cells
    rows = {one.row for one in cells}
    if row not in rows:
        raise ValueError(f"grid {record.name!r} has no row {row!r}; {explain(row, sorted(rows))}")
    if suite is None:
        reading = {one.row: one.training for one in record.rows if seed is None or one.seed == seed}
        meant = [one for one in cells if one.kind == "training" and (one.row == row or one.cell.id == reading.get(row))]
        meant += [one for one in cells if one.kind == "analysis" and one.row == row]
    else:
        meant = [one for one in cells if one.kind == "evaluation" and one.row == row and one.suite == suite]
    meant = [one for one in meant if seed is None or one.seed == seed]
    if not meant:
        suites = sorted({one.suite for one in cells if one.suite})
        raise ValueError(f"row {row!r} has no such cell; suites: {', '.join(suites)}; seeds: {_seeds(cells)}")
    first = meant[0].cell.waits_for() if suite is None and meant[0].kind == "training" else None
    return next(
        (one for one in cells if first is not None and one.cell == first and one.state.name != "done"), meant[0]
    )


def _seeds(cells: list[CellState]) -> str:
    return ", ".join(map(str, sorted({one.seed for one in cells})))


def _of_row(record: GridRecord, root: Path, cells: list[CellState], row: str) -> list[CellState]:
    """The cells of a training row with all that reads it, the evaluations of one row of the table, or one analysis.

    The pre-training of a training row is among them where no other training of the grid starts from it.
    """
    trained = {one.id for one in record.trainings if one.row == row}
    read = {identity for one in record.rows if one.training in trained for identity in one.evaluations.values()}
    read |= {one.id for one in record.analyses if one.row == row or trained.intersection(one.trainings)}
    own = {identity for one in record.rows if one.row == row for identity in one.evaluations.values()}
    starts = {one.id: training_cell(root, one.id).waits_for() for one in record.trainings}
    others = {first.id for id_, first in starts.items() if first is not None and id_ not in trained}
    before = {first.id for id_, first in starts.items() if first is not None and id_ in trained} - others
    meant = [one for one in cells if one.cell.id in before | trained | read | own]
    if not meant:
        rows = sorted({one.row for one in cells})
        raise ValueError(f"grid {record.name!r} has no row {row!r}; {explain(row, rows)}")
    return meant


def _shared(record: GridRecord, root: Path, cells: list[CellState], jobs: dict[str, str]) -> dict[str, list[str]]:
    """Other grids of this root that have a cell of these jobs."""
    stopped = {one.cell.id: jobs[one.job.id] for one in cells if one.job is not None and one.job.id in jobs}
    found: dict[str, list[str]] = {}
    for other in load_grids(root)[0]:
        if other.name == record.name:
            continue
        ids = {one.cell.id for one in list_cells(other, root)}
        if shared := sorted({job for cell, job in stopped.items() if cell in ids}):
            found[other.name] = shared
    return found


def _order(identity: str) -> tuple[int, ...]:
    return tuple(int(part) for part in identity.split("_"))
