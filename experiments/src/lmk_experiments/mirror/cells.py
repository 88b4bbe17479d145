"""The run of one cell: found or made, and brought up to its records, by one writer at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lmk_experiments.mirror.lock import locked
from lmk_experiments.mirror.marks import Marks
from lmk_experiments.mirror.read import active_run, runs_with
from lmk_experiments.mirror.store import ROOT_ID, Store
from lmk_experiments.mirror.wanted import Wanted, wanted
from lmk_experiments.mirror.writer import Writer

if TYPE_CHECKING:
    from mlflow.entities import Run

LOCK = "mlflow.lock"
"""Of a cell's folder: who writes its run right now."""
STALE_SECONDS = 60.0
"""Of that lock, which is held for moments: after so long without a sign of life its host is gone."""
PARENT = "mlflow.parentRunId"
ParentOf = Callable[["Run | None"], "str | None"]
"""The id of the parent that a cell's run should have, given the run as it is; ``None`` where there is none yet."""


def is_shared(store: Store) -> bool:
    """Whether jobs on other machines write to this store too: a server's, never a database."""
    return store.uri.startswith("http")


def write_cell(writer: Writer, cell: Wanted, known: Run | None, parent: ParentOf, *, wait_seconds: float) -> bool:
    """Bring a cell's run to what its records say, and make it where there is none.

    Where jobs mirror themselves this is done under a lock in the cell's folder, and what others may have written is
    asked anew: the job, a sync and a second sync never make two runs of one cell, and none waits for another cell.

    Args:
        known: the run as far as the caller knows.
        wait_seconds: for another process that is just writing this cell.

    Returns:
        Whether the run was made just now.

    Raises:
        LockedError: another process still writes this cell.
    """
    store, shared = writer.store, is_shared(writer.store)
    if known is not None and writer.settled(
        cell, known, Marks.load(cell.cell, store), _tags(store, cell, parent(known))
    ):
        return False
    writer.may_write()
    # Where nobody has ever held the lock, nobody has made a run that the caller does not know.
    asked = shared and (known is not None or (cell.cell.folder / LOCK).exists())
    with _alone(cell.cell.folder, wait_seconds) if shared else contextlib.nullcontext():
        if shared and cell.status == "RUNNING":
            cell = _now(cell)
        marks = Marks.load(cell.cell, store)
        run = _find(store, cell, marks, known) if asked or (shared and marks.run_id is not None) else known
        tags = _tags(store, cell, parent(run))
        fresh = run is None
        if run is None:
            run = writer.create(store.experiments[cell.place.kind], cell.place.title, tags, cell.start)
        if marks.run_id != run.info.run_id:
            marks.forget()
            marks.run_id = run.info.run_id
            marks.save()
        writer.update(cell, run, marks, tags, fresh=fresh)
    return fresh


def _now(cell: Wanted) -> Wanted:
    """It may have ended since the caller looked, and its job may have said so: then nobody would mend an old word."""
    try:
        return wanted(cell.cell.root, cell.place) or cell
    except ValueError:  # a file of the cell has just become unreadable: the next sync says so
        return cell


@contextlib.contextmanager
def _alone(folder: Path, wait_seconds: float) -> Generator[None]:
    with locked(
        folder / LOCK,
        wait_seconds=wait_seconds,
        stale_seconds=STALE_SECONDS,
        what=f"the MLflow run of cell {folder.name}",
    ):
        yield


def _tags(store: Store, cell: Wanted, parent: str | None) -> dict[str, str]:
    tags = {**cell.tags, ROOT_ID: store.root.id}
    return tags if parent is None else {**tags, PARENT: parent}


def _find(store: Store, cell: Wanted, marks: Marks, known: Run | None) -> Run | None:
    """The run of a cell as it is now: the one remembered, else the oldest one with its tags."""
    for run_id in filter(None, (marks.run_id, known.info.run_id if known is not None else None)):
        run = active_run(store, run_id)
        if run is not None and _is_own(store, cell, run.data.tags):
            return run
    own = {ROOT_ID: store.root.id, "lmk.cell": cell.place.id}
    return next(iter(runs_with(store, cell.place.kind, own).values()), None)


def _is_own(store: Store, cell: Wanted, tags: Mapping[str, str]) -> bool:
    if tags.get("lmk.cell") != cell.place.id:
        return False
    if store.root.adopts and ROOT_ID not in tags:
        return tags.get("lmk.root") == cell.tags["lmk.root"]
    return tags.get(ROOT_ID) == store.root.id
