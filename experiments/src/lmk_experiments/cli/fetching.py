"""``lmk fetch``: what a grid needs, brought to a machine with a network for those without."""

from __future__ import annotations

from typing import Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, SetOption, real_root


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(fetch)


def fetch(
    grids: Annotated[list[str], typer.Argument(metavar="GRID...", help="Grids: shipped names or YAML files of yours.")],
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
    only_look: Annotated[
        bool, typer.Option("--look", help="Download nothing: sizes, access, and what needs files.")
    ] = False,
) -> None:
    """Bring the models and data that grids need into this machine's caches, for nodes without a network."""
    from lmk_experiments.cli.columns import columns
    from lmk_experiments.fetch import grid_needs
    from lmk_experiments.fetch.grid import fetch as fetch_all
    from lmk_experiments.grids import load_grid_file, make_plan

    where = real_root(root)
    needs = grid_needs([make_plan(load_grid_file(name, tuple(assignments)), where) for name in grids])
    found = list(fetch_all(needs, where, only_look=only_look, report=typer.echo))
    if not found:
        typer.echo(f"{', '.join(grids)}: nothing is needed from elsewhere")
        return
    rows = [[one.kind, one.name, "?" if one.gb is None else f"{one.gb:,.2f}", one.state] for one in found]
    typer.echo(columns([["what", "name", "GB", "state"], *rows]))
    missing = [one for one in found if one.problem]
    for one in missing:
        typer.echo(f"{one.name}: {one.problem}", err=True)
    known = sum(one.gb or 0.0 for one in found)
    typer.echo(
        f"{len(found) - len(missing)} of {len(found)} are {'to be had' if only_look else 'here'}; {known:,.1f} GB"
    )
    if missing:
        raise typer.Exit(1)
