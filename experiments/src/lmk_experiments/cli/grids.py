"""The verbs of a grid: plan, run, status."""

from __future__ import annotations

import json
from typing import Annotated

import click
import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, GridArgument, RootOption, SetOption, real_root


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(plan)
    app.command()(run)
    app.command()(status)


def plan(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
    as_json: Annotated[bool, typer.Option("--json", help="For programs: the whole plan as JSON.")] = False,
) -> None:
    """Show what a grid comes to: trainings, rows, evaluations, and what exists already. Starts nothing."""
    from lmk_experiments.cli.show_plan import plan_json, plan_text
    from lmk_experiments.grids import load_grid_file, make_plan
    from lmk_experiments.tables.load import load_table

    where = real_root(root)
    loaded = load_grid_file(grid, tuple(assignments))
    made = make_plan(loaded, where)
    load_table(loaded, made)  # a mistake in the table is told now, not after the trainings
    typer.echo(json.dumps(plan_json(made, where), indent=2) if as_json else plan_text(made, where))


def run(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
    at_once: Annotated[
        int, typer.Option(min=1, help="Cells at a time. More than one only pays where cores are plenty.")
    ] = 1,
) -> None:
    """Run a grid on this machine, one cell after another, and print its table.

    What is done is never done again: stop it when you like (Ctrl-C), and the same command goes on.
    """
    from lmk_experiments.cli.run_grid import run_grid

    raise typer.Exit(run_grid(grid, real_root(root), tuple(assignments), at_once))


def status(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it, every two seconds.")] = False,
) -> None:
    """Show where every cell of a grid is: running with its steps and time left, done, failed and why."""
    import time

    from lmk_experiments.cli.show_status import status_text
    from lmk_experiments.grids.names import grid_name
    from lmk_experiments.records import load_grid

    where = real_root(root)
    name = grid_name(grid)
    while True:
        text, finished = status_text(load_grid(where, name), where)
        if watch:
            click.clear()
        typer.echo(text)
        if not watch or finished:
            return
        time.sleep(2)
