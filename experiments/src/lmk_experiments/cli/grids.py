"""The verbs of a grid: plan, run, status."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, GridArgument, RootOption, SetOption, real_root

_WATCH_SECONDS = 2


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(plan)
    app.command()(run)
    app.command()(status)


def plan(
    grids: Annotated[
        list[str] | None, typer.Argument(metavar="[GRID]...", help="Grids: shipped names or YAML files of yours.")
    ] = None,
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
    everything: Annotated[bool, typer.Option("--all", help="Every grid of the paper, together.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: the whole plan as JSON.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Of two grids: cells of both, and of one alone.")] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="A shipped profile's name, or a YAML file: cost by its measured speed; with --show, its jobs [h100].",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Also the exact text that sbatch would be given.")] = False,
) -> None:
    """Show what a grid comes to: trainings, rows, evaluations, what exists already, and the cost. Starts nothing."""
    from lmk_experiments.cli.plan_grids import plan_grids
    from lmk_experiments.costs import load_throughput
    from lmk_experiments.grids import collected

    named = list(grids or [])
    if everything and named:
        raise ValueError(f"--all takes every grid of the paper, so leave out {', '.join(named)}")
    if diff and len(named) != 2:
        raise ValueError(f"--diff needs two grids, for example `lmk plan --diff table1 table6`; found {len(named)}")
    if not everything and not named:
        raise ValueError("which grid? for example `lmk plan quickstart`, or `lmk plan --all` for those of the paper")
    speed = load_throughput(profile) if profile else None
    appendix = collected("appendix") if everything else []
    main = collected("paper") if everything else named
    together = everything or len(named) > 1
    shape = "diff" if diff else "together" if together else "one"
    typer.echo(plan_grids(main, appendix, real_root(root), tuple(assignments), shape, as_json, speed))
    if show:
        from lmk_experiments.cli.submit_grid import show_scripts

        for name in main:
            show_scripts(name, real_root(root), tuple(assignments), profile or "h100")


def run(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cells at a time. By default as many as fit: the cores that this process may use, divided by the "
            "`cpus` that a cell asks for under `resources` (each computes with so many threads); 1 where cells ask for "
            "GPUs, or for no number of cores.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a grid on this machine, as many cells at a time as its cores hold, and print its table.

    What is done is never done again: stop it when you like (Ctrl-C), and the same command goes on.
    """
    from lmk_experiments.cli.interrupts import resumable
    from lmk_experiments.cli.run_grid import run_grid

    with resumable():
        code = run_grid(grid, real_root(root), tuple(assignments), at_once)
    raise typer.Exit(code)


def status(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it, every two seconds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: every cell as JSON.")] = False,
) -> None:
    """Show where every cell of a grid is: running with its steps and time left, done, failed and why."""
    import time

    from rich.console import Console

    from lmk_experiments.cli.grid_names import grid_name
    from lmk_experiments.cli.show_status import status_json, status_text
    from lmk_experiments.records import load_grid
    from lmk_experiments.records.grid import GridPreparing
    from lmk_experiments.submit.states import grid_states

    where = real_root(root)
    name = grid_name(grid)
    screen = Console()
    while True:
        try:
            record = load_grid(where, name)
        except GridPreparing as told:
            if as_json:
                raise
            typer.echo(str(told))
            if not watch:
                return
            time.sleep(_WATCH_SECONDS)
            continue
        states = grid_states(record, where)
        if watch and not as_json:
            screen.clear()
        text = json.dumps(status_json(record, states)) if as_json else status_text(record, states, where)
        typer.echo(text)
        if states.warning:
            typer.echo(f"warning: {states.warning}", err=True)
        if not watch or states.settled:
            return
        time.sleep(_WATCH_SECONDS)
