"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

GridArgument = Annotated[
    str, typer.Argument(metavar="GRID", help="A shipped grid's name (quickstart) or a YAML file of yours.")
]
RootOption = Annotated[
    Path,
    typer.Option("--root", envvar="LMK_ROOT", help="The folder where cells, built data and the store live."),
]
SetOption = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override any key, e.g. --set optim.steps=50. Repeatable."),
]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", envvar="LMK_STORE", help="MLflow's tracking URI; default: SQLite under the root."),
]
DEFAULT_ROOT = Path("runs")


def real_root(root: Path) -> Path:
    """The root as an absolute path.

    Raises:
        ValueError: a path with a colon, which could not be told from the separator of a list of folders.
    """
    absolute = root.expanduser().resolve()
    if ":" in str(absolute):
        raise ValueError(f"--root {root}: a path with a colon cannot hold cells; choose one without")
    return absolute
