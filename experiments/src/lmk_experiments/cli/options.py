"""Arguments and options that several verbs share."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
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
    typer.Option(
        "--store",
        envvar="LMK_STORE",
        help="MLflow's tracking URI; default: SQLite under the root. For passwords: `lmk serve --help`.",
    ),
]
PrefixOption = Annotated[
    str | None,
    typer.Option(
        "--experiment-prefix",
        envvar="LMK_EXPERIMENT_PREFIX",
        metavar="NAME",
        callback=lambda value: use_prefix(value),
        help="Your experiments' names begin with NAME/ on a shared server. The root remembers it.",
    ),
]
DEFAULT_ROOT = Path("runs")


def use_prefix(value: str | None) -> str | None:
    """Set the prefix of experiments for this process and those that it starts.

    Raises:
        ValueError: it cannot begin a name.
    """
    from lmk_experiments.mirror.identity import PREFIX, checked_prefix

    if value is not None:
        os.environ[PREFIX] = checked_prefix(value)
    return value


def again(verb: str, grid: str, root: Path) -> str:
    """A command as it can be typed here: the program as it was found, and the root where it is not the default."""
    words = [*_program(), *verb.split(), *([grid] if grid else [])]
    if root != DEFAULT_ROOT.resolve():
        words += ["--root", str(root)]
    return shlex.join(words)


def _program() -> list[str]:
    """``lmk`` where the shell finds this very program by that name, else the path that was typed."""
    typed, found = Path(sys.argv[0]), shutil.which("lmk")
    if typed.name != "lmk" or (found is not None and Path(found).resolve() == typed.resolve()):
        return ["lmk"]
    here = Path.cwd()
    absolute = typed.absolute()
    return [str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)]


def real_root(root: Path) -> Path:
    """The root as an absolute path.

    Raises:
        ValueError: a path with a colon, which could not be told from the separator of a list of folders.
    """
    absolute = root.expanduser().resolve()
    if ":" in str(absolute):
        raise ValueError(f"--root {root}: a path with a colon cannot hold cells; choose one without")
    return absolute
