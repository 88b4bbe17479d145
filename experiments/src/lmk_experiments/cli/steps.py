"""The verb of one step alone: train."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, SetOption, real_root


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(train)


def train(
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="A YAML file with one complete training, or `quickstart`."),
    ],
    root: RootOption = DEFAULT_ROOT,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Train one model, here and now. It is a cell like a grid's: stopped, it goes on; done, it is not done again."""
    from lmk_experiments.builders import build, fingerprint, is_builtin_reference
    from lmk_experiments.cli.interrupts import resumable
    from lmk_experiments.datasets import data_path, is_data_reference
    from lmk_experiments.grids import identity, load_training_file
    from lmk_experiments.jobs.train import run_training
    from lmk_experiments.records import training_cell

    where = real_root(root)
    loaded = load_training_file(config, tuple(assignments))
    for reference in (loaded.model.path, *loaded.data.paths, loaded.data.validation or ""):
        if is_builtin_reference(reference):
            build(reference.removeprefix("built:").split("/")[0], where, report=typer.echo)
        elif is_data_reference(reference):
            data_path(reference, where)  # an error before a cell is made, where it is not here
    cell = training_cell(where, identity(loaded, lambda reference: fingerprint(reference, where)))
    cell.create("training", loaded.model_dump(mode="json"))
    typer.echo(f"training {cell.id} in {cell.folder}")
    if unreadable := cell.put_aside():
        typer.echo(f"warning: {unreadable}", err=True)
    with resumable():
        run_training(str(cell.folder))
    done = cell.done() or {}
    typer.echo(json.dumps(done.get("metrics", {}), indent=2))
    typer.echo(f"model: {cell.folder / done['model']}")
