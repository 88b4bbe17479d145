"""The verbs of tracking: sync, ui, serve."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, PrefixOption, RootOption, StoreOption, real_root

if TYPE_CHECKING:
    from lmk_experiments.serving import ServerCommand


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(sync)
    app.command()(ui)
    app.command("serve")(team_server)


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
    prefix: PrefixOption = None,  # noqa: ARG001 - its callback uses it
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
    raise typer.Exit(serve(command.argv, command.env))


def team_server(
    folder: Annotated[
        Path, typer.Option("--folder", help="Artifacts, accounts and, without a database of yours, the SQLite file.")
    ] = Path("mlflow-server"),
    host: Annotated[
        str, typer.Option(help="Where it listens. Other machines reach it at --host 0.0.0.0 only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on, 1 to 65535.")] = 5000,
    workers: Annotated[int, typer.Option(help="Processes that answer, some 270 MB each.")] = 4,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further name that machines call this one by. Repeatable."),
    ] = None,
    auth: Annotated[
        bool, typer.Option("--auth", help="Ask for user and password (MLflow's own login; needs Flask-WTF).")
    ] = False,
    admin: Annotated[str, typer.Option(metavar="NAME", help="With --auth: who adds users, at URL/signup.")] = "admin",
    permission: Annotated[
        str,
        typer.Option(
            metavar="EDIT|READ",
            help="With --auth: what users may do in experiments that others made. With READ everyone needs "
            "an LMK_EXPERIMENT_PREFIX of their own.",
        ),
    ] = "EDIT",
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Bring tables of an older MLflow to this one's. Back them up first.")
    ] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the command that would run, and end.")] = False,
) -> None:
    """Run a team's MLflow server, until interrupted: on a login node, or wherever nodes reach it by name.

    Its database is named by MLFLOW_BACKEND_STORE_URI=postgresql://USER@HOST/NAME, its password by PGPASSWORD or
    ~/.pgpass: neither shows in a list of processes. Without them it keeps an SQLite file, enough for a few people.

    Everyone else sets LMK_STORE=http://THIS-HOST:5000, and with --auth MLFLOW_TRACKING_USERNAME and
    MLFLOW_TRACKING_PASSWORD. Artifacts go through the server: nodes need no shared disk.

    Unlike `mlflow server` alone, it lets this machine's names in (else every page says 403 while /health says 200),
    starts no job runners, makes its tables first, and asks itself by its names whether it can be used.
    """
    from lmk_experiments.mirror import serve
    from lmk_experiments.serving import server_command
    from lmk_experiments.serving.command import foreign_artifacts, make_ready

    command = server_command(
        folder,
        host=host,
        port=port,
        workers=workers,
        names=allow_host or [],
        login=auth,
        admin=admin,
        permission=permission,
        draft=show,
    )
    if show:
        typer.echo(command.text())
        return
    make_ready(command, upgrade=upgrade)
    for name in foreign_artifacts(command):
        typer.echo(f"warning: experiment {name!r} keeps its artifacts in a folder of one machine", err=True)
    for note in command.notes:
        typer.echo(note)
    raise typer.Exit(serve(command.argv, command.environment(), started=lambda server: _started(command, server)))


def _started(command: ServerCommand, server: subprocess.Popen[bytes]) -> None:
    """Say where it is found, once that is true."""
    from lmk_experiments.serving import check_server

    for warning in check_server(command, server):
        typer.echo(f"warning: {warning}", err=True)
    if command.open_to_all:
        typer.echo(
            "warning: OPEN TO EVERYONE who reaches this machine, without a password: they read, change and delete "
            "everything in it. --auth asks for one",
            err=True,
        )
    typer.echo(f"the server on {command.address} answers; Ctrl-C ends it. On every other machine:")
    typer.echo(f"  export LMK_STORE={command.urls[0]}")
    if command.login:
        typer.echo("  export MLFLOW_TRACKING_USERNAME=... MLFLOW_TRACKING_PASSWORD=...   (or ~/.mlflow/credentials)")


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
