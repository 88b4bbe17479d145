"""What a person is told who stops work that goes on when it is asked for again."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import typer


@contextlib.contextmanager
def resumable() -> Generator[None]:
    """Ctrl-C ends the command with 130 and says that nothing done is lost."""
    try:
        yield
    except KeyboardInterrupt:
        # Said here: typer turns a KeyboardInterrupt into an exit code before anybody else sees it.
        typer.echo("interrupted; the same command goes on where it stopped", err=True)
        raise typer.Exit(130) from None
