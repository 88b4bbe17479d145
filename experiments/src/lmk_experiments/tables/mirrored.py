"""Sync a root to MLflow, each grid's parent run carrying its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lmk_experiments.mirror import SyncReport, sync
from lmk_experiments.records import GridRecord
from lmk_experiments.records.figures import has_table
from lmk_experiments.tables.collect import grid_table
from lmk_experiments.tables.formats import render
from lmk_experiments.tables.given import has_baseline
from lmk_experiments.tables.significance import Comparing


def sync_with_tables(
    root: Path,
    grids: Sequence[str] | None = None,
    *,
    uri: str | None = None,
    progress: Callable[[str], None] | None = None,
    wait_seconds: float = 5.0,
    models: str | None = None,
) -> SyncReport:
    """As ``mirror.sync``; every grid's table, as ``lmk table`` prints it, becomes artifacts of its parent runs.

    Both ``table.md`` and ``table.html``: MLflow's view of Markdown knows no underline.
    """

    def files(record: GridRecord) -> dict[str, str]:
        if not has_table(record):
            return {}
        # From the records, which say the same: the store is being written.
        tables = [grid_table(root, record.name, tests=Comparing() if has_baseline(record) else None)]
        return {f"table.{form}": render(tables, form) for form in ("md", "html")}

    return sync(
        root,
        grids,
        uri=uri,
        progress=progress,
        wait_seconds=wait_seconds,
        models=models,
        table_text=files,
    )
