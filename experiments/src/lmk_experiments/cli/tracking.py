"""The verbs of tracking: sync, ui."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, PrefixOption, RootOption, StoreOption, real_root

if TYPE_CHECKING:
    from lmk_experiments.mirror import SyncReport


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
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Keep at it until Ctrl-C, printing only what changes. One watcher a root."),
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=1.0, metavar="SECONDS", help="With --watch: the pause between two syncs.")
    ] = 10.0,
    prefix: PrefixOption = None,  # noqa: ARG001 - its callback uses it
) -> None:
    """Write to MLflow what the records hold and MLflow does not. A second call changes nothing.

    Where the store is a server (http), running jobs mirror themselves, and this adds the grids' parent runs, their
    tables and whatever a job could not send. A database (SQLite) is written by this alone: --watch follows jobs there.
    """
    from lmk_experiments.cli.grid_names import grid_name
    from lmk_experiments.tables.mirrored import sync_with_tables

    where = real_root(root)
    names = None if grid is None else [grid_name(grid)]

    def once() -> SyncReport:
        return sync_with_tables(where, names, uri=store, progress=typer.echo, models=models)

    if watch:
        _watch(where, once, every)
        return
    report = once()
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for note in report.notes:
        typer.echo(f"note: {note}")
    typer.echo(str(report))


def _watch(root: Path, once: Callable[[], SyncReport], every: float) -> None:
    from lmk_experiments.mirror import watch

    # A signal ends it as Ctrl-C does: the lock is left free for a watcher on another machine.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        watch(root, once, say=typer.echo, warn=lambda text: typer.echo(text, err=True), seconds=every)
    except KeyboardInterrupt:
        typer.echo("watching ended; what is not mirrored yet, the next `lmk sync` does")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


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


class SideSync:
    """Syncs beside running jobs, in a thread: a server that does not answer holds nothing up, and is said once."""

    def __init__(self, root: Path, grids: list[str], *, wait_seconds: float) -> None:
        from lmk_experiments.mirror import Said

        self.root, self.grids, self.wait_seconds = root, grids, wait_seconds
        self.said = Said(lambda text: typer.echo(text, err=True))
        self._thread: threading.Thread | None = None

    def soon(self) -> None:
        """Sync now, unless the sync before is not done yet; returns at once."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._sync, name="sync", daemon=True)
            self._thread.start()

    def end(self, seconds: float) -> None:
        """Wait for the last one, up to so long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _sync(self) -> None:
        from lmk_experiments.mirror import LockedError, StoreError
        from lmk_experiments.tables.mirrored import sync_with_tables

        try:
            self.said.went(sync_with_tables(self.root, self.grids, wait_seconds=self.wait_seconds).warnings)
        except LockedError:  # another process does it just now; the next one comes soon
            pass
        except (StoreError, ValueError, OSError) as error:
            self.said.failed(error)
