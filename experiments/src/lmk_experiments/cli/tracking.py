"""The verbs of tracking: sync, table, ui."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
