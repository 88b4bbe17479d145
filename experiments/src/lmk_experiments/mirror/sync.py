"""Records to MLflow: one run a cell, one parent a grid, nothing twice."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lmk_experiments.mirror.lock import locked
from lmk_experiments.mirror.marks import FILE, Marks
from lmk_experiments.mirror.models import Models, chosen_policy
from lmk_experiments.mirror.read import active_run, runs_of_root
from lmk_experiments.mirror.store import KINDS, Kind, Store, StoreError, open_store, tracking_uri, without_credentials
from lmk_experiments.mirror.wanted import Place, Status, Wanted, places, wanted
from lmk_experiments.mirror.writer import Writer, digest
from lmk_experiments.records import Cell, GridRecord, load_grid, load_grids

if TYPE_CHECKING:
    from mlflow.entities import Run

LOCK = "mlflow-sync.lock"
TableText = Callable[[GridRecord], str | Mapping[str, str]]
"""Makes a grid's table: its Markdown, or the texts of several files by their names."""
PARENT = "mlflow.parentRunId"


@dataclass
class SyncReport:
    """What a sync did.

    Attributes:
        address: the store, without credentials.
        created, updated, unchanged: runs of cells.
        waiting: cells that were not started, and so have no run yet.
        writes: calls that changed the store; 0 where everything was there already.
        warnings: what the store did not take. The records hold it.
        notes: what was left out on purpose, and how to have it.
    """

    address: str
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    waiting: int = 0
    writes: int = 0
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = f"{self.created} created, {self.updated} updated, {self.unchanged} unchanged"
        waiting = f", {self.waiting} not started" if self.waiting else ""
        return f"{self.address}: {counts}{waiting}"


def sync(
    root: Path,
    grids: Sequence[str] | None = None,
    *,
    uri: str | None = None,
    user: str | None = None,
    table_text: TableText | None = None,
    progress: Callable[[str], None] | None = None,
    wait_seconds: float = 30.0,
    models: str | None = None,
) -> SyncReport:
    """Write to MLflow what the records hold and the store does not; a second call changes nothing.

    Args:
        grids: names of grids that were run under ``root``; all of them by default.
        uri: the store; see ``tracking_uri`` for the default.
        user: recorded with the runs that this call creates; the login name by default.
        table_text: makes the table of a grid, kept as artifact of its parent runs: ``table.md``, or the files it names.
        progress: told one line for every run that changed.
        wait_seconds: how long to wait for another sync of this root, and for another process that makes the store.
        models: which finished models are logged, see ``chosen_policy``.

    A grid whose record cannot be read, and that was not asked for by its name, is left out with a warning.

    Raises:
        ValueError: no such grid was run here, or its record cannot be read; or no such choice of models.
        StoreError: the store cannot be used. What was not written is written by the next call.
        LockedError: another process still syncs this root.
    """
    root = root.resolve()
    policy, say = chosen_policy(models), progress or (lambda _: None)
    every, unreadable = load_grids(root)
    chosen = every if grids is None else [load_grid(root, name) for name in grids]
    try:
        with locked(root / LOCK, wait_seconds=wait_seconds):
            store = open_store(root, uri, wait_seconds=wait_seconds)
            writer = Writer(store, user or getpass.getuser(), Models(store, policy, say))
            work = _Sync(root, store, writer, say)
            work.writer.warnings += unreadable
            return work.run(every, chosen, table_text)
    except StoreError:
        raise
    except Exception as error:
        # MLflow's own errors are looked up by name: importing it here would cost seconds where no sync is possible.
        if not isinstance(error, OSError) and type(error).__name__ not in ("MlflowException", "RestException"):
            raise
        place = without_credentials(tracking_uri(root, uri))
        raise StoreError(
            f"sync to {place} stopped: {error}. The records are complete; run it again to go on"
        ) from error


class _Sync:
    """One pass over the cells of some grids."""

    def __init__(self, root: Path, store: Store, writer: Writer, progress: Callable[[str], None]) -> None:
        self.root = root
        self.store = store
        self.writer = writer
        self.progress = progress
        self.report = SyncReport(store.address)
        self.held = {kind: runs_of_root(store, root, kind) for kind in KINDS}
        if not any(self.held.values()):
            self._move_in()

    def run(self, every: list[GridRecord], chosen: list[GridRecord], table_text: TableText | None) -> SyncReport:
        # A cell may stand in grids that were not asked for: its tags name them too.
        names = {grid.name for grid in chosen}
        found = [place for place in places(every).values() if place.grids & names]
        cells = {(place.kind, place.id): self._wanted(place) for place in found}
        started = [cell for cell in cells.values() if cell is not None]
        self.report.waiting = len(cells) - len(started)
        parents = {grid.name: self._parents(grid, started) for grid in chosen}
        for cell in started:
            self._cell(cell, parents)
        for grid in chosen:
            members = [cell for place, cell in zip(found, cells.values(), strict=True) if grid.name in place.grids]
            for kind, parent in parents[grid.name].items():
                self._finish_parent(parent, [cell for cell in members if cell is None or cell.place.kind == kind])
            if table_text is not None:
                self._table(grid, list(parents[grid.name].values()), table_text)
        self.report.writes, self.report.warnings = self.writer.writes, [*self.store.warnings, *self.writer.warnings]
        if self.writer.models is not None:
            self.report.notes += self.writer.models.notes()
        return self.report

    def _wanted(self, place: Place) -> Wanted | None:
        try:
            return wanted(self.root, place)
        except ValueError as error:
            # One cell with a broken file does not keep the others from the store.
            self.writer.warnings.append(str(error))
            return None

    def _move_in(self) -> None:
        """Where a root was moved together with its own database, its runs take the new place's name."""
        for folder in sorted(self.root.glob(f"*/*/{FILE}")):
            run_id = Marks.load(Cell(folder.parent), self.store).run_id
            run = None if run_id is None else active_run(self.store, run_id)
            if run is None:
                continue
            before = Path(run.data.tags.get("lmk.root", str(self.root)))
            for kind in KINDS:
                for moved in runs_of_root(self.store, before, kind).values():
                    self.writer.set_tags(moved, {"lmk.root": str(self.root)})
                self.held[kind] = runs_of_root(self.store, self.root, kind)
            return

    def _cell(self, cell: Wanted, parents: dict[str, dict[Kind, Run]]) -> None:
        before, kind = self.writer.writes, cell.place.kind
        marks = Marks.load(cell.cell, self.store)
        run = self._find(cell.place, marks)
        # A cell of several grids has one parent; the one that it has got stays.
        possible = [parents[name][kind].info.run_id for name in sorted(cell.place.grids) if name in parents]
        held = run.data.tags.get(PARENT) if run is not None else None
        tags = {**cell.tags, PARENT: held if held in self._parent_ids(kind, cell.place) else possible[0]}
        fresh = run is None
        if run is None:
            run = self.writer.create(self.store.experiments[kind], cell.place.title, tags, cell.start)
        if marks.run_id != run.info.run_id:
            marks.forget()
            marks.run_id = run.info.run_id
            marks.save()
        self.writer.update(cell, run, marks, tags, fresh=fresh)
        changed = self.writer.writes > before
        self.report.created += fresh
        self.report.updated += changed and not fresh
        self.report.unchanged += not changed
        if changed:
            self.progress(f"{'created' if fresh else 'updated'} {cell.place.title}: {cell.status.lower()}")

    def _find(self, place: Place, marks: Marks) -> Run | None:
        """The run of a cell: the one remembered, else the oldest one with its tags."""
        runs = self.held[place.kind]
        if marks.run_id in runs:
            return runs[marks.run_id]
        found = [run for run in runs.values() if run.data.tags.get("lmk.cell") == place.id]
        if len(found) > 1:
            self.writer.warnings.append(f"cell {place.id} has {len(found)} runs in {self.store.address}; one is used")
        return found[0] if found else None

    def _parent_ids(self, kind: Kind, place: Place) -> set[str]:
        return {
            run.info.run_id
            for run in self.held[kind].values()
            if run.data.tags.get("lmk.kind") == "grid" and run.data.tags.get("lmk.grid") in place.grids
        }

    def _parents(self, grid: GridRecord, started: list[Wanted]) -> dict[Kind, Run]:
        """The grid's parent run in each experiment where one of its cells was started."""
        parents: dict[Kind, Run] = {}
        for kind in KINDS:
            cells = [cell for cell in started if cell.place.kind == kind and grid.name in cell.place.grids]
            if not cells:
                continue
            tags = {"lmk.kind": "grid", "lmk.grid": grid.name, "lmk.root": str(self.root)}
            parent = next((run for run in self.held[kind].values() if tags.items() <= run.data.tags.items()), None)
            tags["lmk.title"] = tags["mlflow.note.content"] = grid.title or grid.name
            if parent is None:
                start = min(cell.start for cell in cells)
                parent = self.writer.create(self.store.experiments[kind], grid.name, tags, start)
                self.held[kind][parent.info.run_id] = parent
            self.writer.set_tags(parent, tags)
            parents[kind] = parent
        return parents

    def _finish_parent(self, parent: Run, cells: list[Wanted | None]) -> None:
        """A grid's status: what its cells make of it; unfinished and not running is ``SCHEDULED``."""
        statuses = {"SCHEDULED" if cell is None else cell.status for cell in cells}
        first: tuple[Status, ...] = ("RUNNING", "FAILED", "KILLED", "SCHEDULED")
        status = next((status for status in first if status in statuses), "FINISHED")
        self.writer.finish(
            parent, status, max((cell.end or 0 for cell in cells if cell is not None), default=0) or None
        )

    def _table(self, grid: GridRecord, parents: Iterable[Run], table_text: TableText) -> None:
        try:
            text = table_text(grid)
        except ValueError as error:
            self.writer.warnings.append(f"no table of grid {grid.name}: {error}")
            return
        files = {"table.md": text} if isinstance(text, str) else dict(text)
        mark = digest("\n".join(files.values()))
        for parent in parents:
            if parent.data.tags.get("lmk.table") == mark:
                continue
            # Every file is tried, so that one that is refused does not keep the others away.
            taken = [self.writer.upload(parent, name, content) for name, content in files.items()]
            if all(taken):
                self.writer.set_tags(parent, {"lmk.table": mark})
