"""The verbs of a grid on a scheduler: submit, tail, cancel."""

from __future__ import annotations

from typing import Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, GridArgument, RootOption, SetOption, real_root


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(submit)
    app.command()(tail)
    app.command()(cancel)


def submit(
    grid: GridArgument,
    profile: Annotated[
        str, typer.Option("--profile", metavar="PROFILE", help="A shipped profile's name, or a YAML file of yours.")
    ],
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
    dirty: Annotated[
        bool, typer.Option("--dirty", help="Take changes along that are not committed; they are kept as a diff.")
    ] = False,
) -> None:
    """Hand a grid to the cluster and return at once. Again, it submits only what is missing.

    The root must be on a disk that every node sees. Jobs run a copy of the last commit; uncommitted
    changes of the source are refused unless --dirty takes them along.
    """
    from lmk_experiments.cli.interrupts import resumable
    from lmk_experiments.cli.submit_grid import submit_grid_file

    with resumable():
        code = submit_grid_file(grid, real_root(root), tuple(assignments), profile, dirty)
    raise typer.Exit(code)


def tail(
    grid: GridArgument,
    row: Annotated[str, typer.Argument(metavar="ROW", help="A training row, or a row of the table.")],
    root: RootOption = DEFAULT_ROOT,
    suite: Annotated[
        str | None, typer.Option("--suite", help="The row's evaluation on this suite, not its training.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Which seed; default: the first.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many lines.")] = 30,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the cell has ended.")] = False,
) -> None:
    """Print the end of a cell's log: what its job said last. Of a row that waits for its pre-training, that one's."""
    from lmk_experiments.cli.follow import show_tail

    show_tail(grid, row, real_root(root), suite=suite, seed=seed, lines=lines, follow=follow)


def cancel(
    grid: GridArgument,
    row: Annotated[
        str | None, typer.Argument(metavar="[ROW]", help="A training row or a row of the table; default: the grid.")
    ] = None,
    root: RootOption = DEFAULT_ROOT,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Stop a grid's jobs on the cluster, or those of one row and what waits for them. Asks first.

    A row's pre-training stops too, unless other rows start from it.
    What is done stays done, and what a training has saved stays: `lmk submit` goes on from there.
    """
    from lmk_experiments.cli.follow import cancel_jobs

    cancel_jobs(grid, row, real_root(root), yes=yes)
