"""``lmk run``: build, plan, run one cell after another, mirror, tabulate."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lmk_experiments.cli.columns import next_steps
from lmk_experiments.cli.options import again
from lmk_experiments.cli.progress import Display
from lmk_experiments.grids import Plan, load_grid_file, make_plan
from lmk_experiments.records import GridRecord

if TYPE_CHECKING:
    from lmk_experiments.cli.tracking import SideSync

WAIT_SECONDS = 0.5
"""How long a sync waits for another one while jobs run, in seconds: the next one comes soon."""
END_SECONDS = 60.0
"""How long a run waits for a sync that is under way when its jobs have ended."""
DATABASE_SECONDS = 120.0
"""How long jobs wait for the database to be made."""


def run_grid(grid: str, root: Path, assignments: tuple[str, ...], at_once: int | None) -> int:
    """Run a grid to its table and figures. Returns the exit code: 0 when every cell is done, 1 otherwise.

    Args:
        at_once: cells at a time; None is as many as this machine has cores for.
    """
    from lmk_experiments.cli.show_plan import cell_state
    from lmk_experiments.jobs.check import check_data
    from lmk_experiments.jobs.fan import make_jobs
    from lmk_experiments.jobs.room import cells_at_once, cores_here
    from lmk_slurm import run_jobs

    plan, record = prepare(grid, root, assignments)
    check_data(plan, lambda kind, identity: cell_state(root, kind, identity) == "done", typer.echo)
    jobs, away = make_jobs(record, root, plan), False
    waiting = [job for job in jobs if job.missing()]
    at_once = at_once or cells_at_once(waiting, cores_here())
    if not waiting:
        typer.echo(f"{record.name}: everything is done already, under {root}")
    else:
        typer.echo(f"{record.name}: {len(jobs) - len(waiting)} of {len(jobs)} jobs are done already, under {root}")
        if at_once > 1:
            typer.echo(f"{at_once} cells at a time")
        beside = _mirror_beside(root, record)
        # Idle OpenMP threads sleep instead of spinning: beside other work on the same cores, spinning made a training
        # of a minute take four.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        with Display(jobs, after=beside.soon) as display:
            results = run_jobs(jobs, at_once=at_once, on_change=display.change, tick=display.tick)
        beside.end(END_SECONDS)
        away = beside.said.away
        failed = [name for name, result in results.items() if result.state != "done"]
        for name in failed:
            typer.echo(f"{name}: {results[name].state}: {results[name].reason}", err=True)
            if results[name].log:
                typer.echo(f"  log: {results[name].log}", err=True)
        if failed:
            typer.echo(
                f"{len(failed)} of {len(jobs)} jobs did not finish; run the same command to try them again", err=True
            )
    _finish(root, record, away)
    return int(any(job.missing() for job in jobs))


def prepare(grid: str, root: Path, assignments: tuple[str, ...]) -> tuple[Plan, GridRecord]:
    """Read a grid, build the data that it names, and make the folders of its cells."""
    from lmk_experiments.builders import build
    from lmk_experiments.cli.show_plan import cell_state
    from lmk_experiments.grids.ready import check_ready
    from lmk_experiments.jobs.fan import write_cells
    from lmk_experiments.records.grid import preparing
    from lmk_experiments.tables.load import load_table

    loaded = load_grid_file(grid, assignments)
    plan = make_plan(loaded, root)
    for one in plan.warnings:
        typer.echo(f"warning: {one}", err=True)
    table = load_table(loaded, plan)
    check_ready(plan, root, lambda kind, identity: cell_state(root, kind, identity) == "done")
    if plan.not_built:
        with preparing(root, plan.grid, f"its data is being built: {', '.join(sorted(plan.not_built))}"):
            for name in sorted(plan.not_built):
                build(name, root, report=typer.echo)
        plan = make_plan(loaded, root)
    return plan, write_cells(plan, root, table, report=lambda text: typer.echo(f"warning: {text}", err=True))


def sync_records(root: Path, record: GridRecord, *, wait_seconds: float = 5.0) -> None:
    """Mirror one grid to MLflow; a store that cannot be reached stops nothing."""
    from lmk_experiments.cli.tracking import sync_quietly

    sync_quietly(root, [record.name], wait_seconds=wait_seconds)


def _mirror_beside(root: Path, record: GridRecord) -> SideSync:
    """Sync now and then while jobs run. A database is made before any of them starts; a server may answer when it
    likes.
    """
    from lmk_experiments.cli.tracking import SideSync
    from lmk_experiments.mirror import StoreError, tracking_uri

    beside = SideSync(root, [record.name], wait_seconds=WAIT_SECONDS)
    beside.soon()
    with contextlib.suppress(StoreError):
        if not tracking_uri(root).startswith("http"):
            beside.end(DATABASE_SECONDS)
    return beside


def _finish(root: Path, record: GridRecord, away: bool) -> None:
    """Print the table. A store that was away a moment ago is not asked again: that may take minutes."""
    from lmk_experiments.cli.tables import table_text
    from lmk_experiments.records.figures import figures_text, has_table

    typer.echo("")
    if has_table(record):
        typer.echo(table_text(record.name, root, "records" if away else "mlflow"))
    if record.analyses:
        typer.echo(figures_text(root, record))
    typer.echo(f"\n{what_next(record.name, root) if has_table(record) else _after_figures(record.name, root)}")


def _after_figures(grid: str, root: Path) -> str:
    return next_steps(
        [
            (again("status", grid, root), "every cell: state, attempts, folder"),
            (again("report", grid, root), "one HTML page: the figures with their captions and numbers"),
            (again("ui", "", root), "the runs with the figures as their artifacts, in the MLflow UI"),
        ]
    )


def what_next(grid: str, root: Path) -> str:
    """What a person may look at after a run, as it is typed."""
    return next_steps(
        [
            (again("status", grid, root), "every cell: state, attempts, folder"),
            (again("table", grid, root), "this table again, from MLflow"),
            (again("ui", "", root), "the runs, their curves and the table in the MLflow UI"),
            (f"{shlex.quote(str(root))}/trainings/<id>/model", "a model: lmk_core.Embedder.from_pretrained opens it"),
        ]
    )
