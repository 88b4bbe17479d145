"""The job that mirrors a grid's records to MLflow when its other jobs have ended."""

from __future__ import annotations

import time
from pathlib import Path

from lmk_experiments.records.atomic import write_json

MARK = "SYNCED.json"
WAIT_SECONDS = 300.0
"""How long it waits for another sync of the same root, in seconds."""


def run_sync(folder: str) -> None:
    """Mirror the grid in ``folder`` (``<root>/grids/<grid>``)."""
    from lmk_experiments.tables.mirrored import sync_with_tables

    grid = Path(folder)
    # A watcher may be at it just now, for as long as the first sync of many cells takes.
    report = sync_with_tables(grid.parent.parent, [grid.name], progress=print, wait_seconds=WAIT_SECONDS)
    for warning in report.warnings:
        print(f"warning: {warning}")
    print(report, flush=True)
    write_json(grid / MARK, {"time": time.time(), "report": str(report)})
