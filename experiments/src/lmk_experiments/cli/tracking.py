"""The verbs of tracking: sync, ui."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, StoreOption, real_root


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(sync)
    app.command()(ui)


def sync(
    grid: Annotated[str | None, typer.Argument(metavar="[GRID]", help="One grid; default: all run here.")] = None,
    root: RootOption = DEFAULT_ROOT,
    store: StoreOption = None,
    models: Annotated[
        str | None,
        typer.Option(
            envvar="LMK_LOG_MODELS",
            metavar="auto|all|none",
            help="Finished models for mlflow.pyfunc.load_model. auto: where weights can be hard links, which cost "
            "no disk (the root's own store); all: also copied to another file system or uploaded to a server "
            "(600 MB a ModernBERT-base); none: nowhere.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep at it, every ten seconds, until interrupted.")] = False,
) -> None:
    """Write to MLflow what the records hold and MLflow does not. A second call changes nothing."""
    import time

    from lmk_experiments.grids.names import grid_name
    from lmk_experiments.tables.mirrored import sync_with_tables

    where = real_root(root)
    names = None if grid is None else [grid_name(grid)]
    while True:
        report = sync_with_tables(where, names, uri=store, progress=typer.echo, models=models)
        for warning in report.warnings:
            typer.echo(f"warning: {warning}", err=True)
        for note in report.notes:
            typer.echo(f"note: {note}")
        typer.echo(str(report))
        if not watch:
            return
        time.sleep(10)


def ui(
    root: RootOption = DEFAULT_ROOT,
    store: StoreOption = None,
    host: Annotated[str, typer.Option(help="127.0.0.1 serves this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on, 1 to 65535.")] = 5000,
) -> None:
    """Show the runs of this root in the MLflow UI, until interrupted."""
    from lmk_experiments.mirror import serve, ui_command

    command = ui_command(real_root(root), uri=store, host=host, port=port)
    if not command.argv:
        typer.echo(f"the store is a server that runs already: {command.url}")
        return
    for warning in command.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"MLflow answers at {command.url} in some seconds; Ctrl-C ends it")
    raise typer.Exit(serve(command))


def sync_quietly(root: Path, grids: list[str], *, wait_seconds: float = 5.0) -> None:
    """Sync beside running work: whatever keeps it from that is said and stops nothing, for the records stand.

    Args:
        wait_seconds: how long to wait for another sync; jobs are not looked after meanwhile.
    """
    from lmk_experiments.mirror import LockedError, StoreError
    from lmk_experiments.tables.mirrored import sync_with_tables

    try:
        for warning in sync_with_tables(root, grids, wait_seconds=wait_seconds).warnings:
            typer.echo(f"warning: {warning}", err=True)
    except (StoreError, LockedError, ValueError, OSError) as error:
        typer.echo(f"warning: not mirrored to MLflow now ({error}); `lmk sync` does it later", err=True)
