"""Records to MLflow: one run a cell, one parent a grid, nothing twice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lmk_experiments.mirror.address import explain
from lmk_experiments.mirror.adopt import adopt
from lmk_experiments.mirror.cells import PARENT, is_shared, write_cell
from lmk_experiments.mirror.collected import collect, state_of
from lmk_experiments.mirror.known import Cells, Held
from lmk_experiments.mirror.lock import LockedError, locked
from lmk_experiments.mirror.looking import Looker, look_at
from lmk_experiments.mirror.marks import Marks
from lmk_experiments.mirror.models import Models, chosen_policy
from lmk_experiments.mirror.models.policy import Policy
from lmk_experiments.mirror.moved import set_right
from lmk_experiments.mirror.plain import TROUBLE, NeedsMlflow
from lmk_experiments.mirror.read import Collected, Seen, runs_of_kinds
from lmk_experiments.mirror.store import KINDS, Kind, Store, StoreError, open_store, tracking_uri, without_credentials
from lmk_experiments.mirror.wanted import Status, Wanted
from lmk_experiments.mirror.writer import Writer, digest
from lmk_experiments.records import GridRecord, load_grid, load_grids
from lmk_experiments.records.tickets import user_name

if TYPE_CHECKING:
    from mlflow.entities import Run

LOCK = "mlflow-sync.lock"
_THREADS = 4
"""Cells that are written at once to a server, which has processes and a network between."""
Runs = dict[Kind, dict[str, "Run"]]
"""What a store holds of a root: experiment to id to run."""
TableText = Callable[[GridRecord], str | Mapping[str, str]]
"""Makes a grid's table: its Markdown, or the texts of several files by their names."""


@dataclass
class SyncReport:
    """What a sync did.

    Attributes:
        address: the store, without credentials.
        created, updated, unchanged: runs of cells.
        waiting: cells that were not started, and so have no run yet.
        writes: calls that changed the store; 0 where everything was there already.
        warnings: what the store did not take. The records hold it.
        seen: what was read of the evaluations, where nothing was written since, and the grids that are complete.
        notes: what was left out on purpose, and how to have it.
    """

    address: str
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    waiting: int = 0
    writes: int = 0
    warnings: list[str] = field(default_factory=list)
    seen: Seen | None = field(default=None, repr=False)
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
            moved = set_right(root, tracking_uri(root, uri), wait_seconds=wait_seconds)
            looking = look_at(root, uri)
            with ThreadPoolExecutor(1, thread_name_prefix="look") as beside:
                # A server takes its time to answer, in which the records are read.
                looked = None if looking is None else beside.submit(runs_of_kinds, looking)
                cells = Cells(root, every, chosen)
            cells.warnings += unreadable

            def work(store: Store, writer: Writer, held: Runs) -> SyncReport:
                report = _Sync(root, store, writer, held, say, wait_seconds, policy).run(cells, chosen, table_text)
                report.warnings += moved
                return report

            held: Runs | None = None
            if looking is not None and looked is not None:
                with contextlib.suppress(NeedsMlflow, *TROUBLE):
                    held = looked.result()
                    return work(looking, Looker(looking, ""), held)
            store = open_store(root, uri, wait_seconds=wait_seconds)
            if held is None or looking is None or store.warnings or looking.experiments != store.experiments:
                held = runs_of_kinds(store)  # what was read is not what there is any more
            return work(store, Writer(store, user or user_name()), held)
    except StoreError:
        raise
    except Exception as error:
        # MLflow's own errors are looked up by name: importing it here would cost seconds where no sync is possible.
        if not isinstance(error, OSError) and type(error).__name__ not in ("MlflowException", "RestException"):
            raise
        place = without_credentials(tracking_uri(root, uri))
        raise StoreError(
            f"sync to {place} stopped: {explain(error, place)}. The records are complete; run it again to go on"
        ) from error


class _Sync:
    """One pass over the cells of some grids."""

    def __init__(
        self,
        root: Path,
        store: Store,
        writer: Writer,
        held: Runs,
        progress: Callable[[str], None],
        wait_seconds: float,
        policy: Policy,
    ) -> None:
        self.wait_seconds = wait_seconds
        self.root = root
        self.store = store
        self.writer = writer
        self.progress = progress
        self.report = SyncReport(store.address)
        self.models = Models(store, policy, progress)
        self.held = held
        adopt(root, store, writer, self.held)
        self.models.known = {run_id: run for runs in self.held.values() for run_id, run in runs.items()}

    def run(self, cells: Cells, chosen: list[GridRecord], table_text: TableText | None) -> SyncReport:
        self.writer.warnings += cells.warnings
        started = [cell for cell in cells.wanted if cell is not None]
        self.report.waiting = len(cells.wanted) - len(started)
        parents = {grid.name: self._parents(grid, started) for grid in chosen}
        states = {grid.name: state_of(grid, cells.of(grid.name)) for grid in chosen}
        self._cells(started, parents)
        for grid in chosen:
            members = cells.of(grid.name)
            for kind, parent in parents[grid.name].items():
                self._finish_parent(parent, [cell for cell in members if cell is None or cell.place.kind == kind])
            if table_text is not None:
                self._table(grid, list(parents[grid.name].values()), table_text)
        for cell in started:
            self.models.log(cell)  # after all else: weights may take minutes, and a run is complete without them
        collected = {} if self._warnings() else self._collect(cells, states, parents)
        self.report.writes = self.writer.writes + self.models.writes
        self.report.warnings = [*self.store.warnings, *self._warnings()]
        self.report.notes = self.models.notes()
        self.report.seen = Seen(self.store, None if self.writer.writes else self.held["evaluation"], collected)
        return self.report

    def _warnings(self) -> list[str]:
        return [*self.writer.warnings, *self.models.warnings]

    def _collect(
        self, cells: Cells, states: Mapping[str, str | None], parents: Mapping[str, Mapping[Kind, Run]]
    ) -> dict[str, Collected]:
        """Write that these grids are in the store as they were when the sync began."""
        found: dict[str, Collected] = {}
        for name, state in states.items():
            parent = parents[name].get("evaluation")
            if parent is None or state is None:
                continue
            collected = collect(self.writer, parent, cells.of(name), state)
            if collected is not None:
                found[name] = collected
        return found

    def _cells(self, started: list[Wanted], parents: dict[str, dict[Kind, Run]]) -> None:
        """Every cell, several at once where a server answers; reported in the order of the grids."""
        held = Held(self.held)
        if isinstance(self.writer, Looker) or not is_shared(self.store):
            for cell in started:
                self._count(cell, *self._cell(cell, parents, held))
            return
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="sync") as pool:
            futures = [pool.submit(self._cell, cell, parents, held) for cell in started]
            try:
                for cell, future in zip(started, futures, strict=True):
                    self._count(cell, *future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _cell(self, cell: Wanted, parents: dict[str, dict[Kind, Run]], held: Held) -> tuple[bool, Writer]:
        """Bring one cell's run up to date: whether it is new, and what wrote it."""
        kind, writer = cell.place.kind, self.writer.another()
        known, others = held.find(cell.place, Marks.load(cell.cell, self.store))
        if others:
            writer.warnings.append(f"cell {cell.place.id} has {others + 1} runs in {self.store.address}; one is used")
        # A cell of several grids has one parent; the one that it has got stays.
        possible = [parents[name][kind].info.run_id for name in sorted(cell.place.grids) if name in parents]
        valid = held.parents(cell.place)

        def parent(run: Run | None) -> str:
            own = run.data.tags.get(PARENT) if run is not None else None
            return own if own in valid else possible[0]

        try:
            return write_cell(writer, cell, known, parent, wait_seconds=self.wait_seconds), writer
        except LockedError as error:
            writer.warnings.append(f"left for the next sync: {error}")
            return False, writer

    def _count(self, cell: Wanted, fresh: bool, writer: Writer) -> None:
        self.writer.add(writer)
        changed = writer.writes > 0
        self.report.created += fresh
        self.report.updated += changed and not fresh
        self.report.unchanged += not changed
        if changed:
            self.progress(f"{'created' if fresh else 'updated'} {cell.place.title}: {cell.status.lower()}")

    def _parents(self, grid: GridRecord, started: list[Wanted]) -> dict[Kind, Run]:
        """The grid's parent run in each experiment where one of its cells was started."""
        parents: dict[Kind, Run] = {}
        for kind in KINDS:
            cells = [cell for cell in started if cell.place.kind == kind and grid.name in cell.place.grids]
            if not cells:
                continue
            tags = {"lmk.kind": "grid", "lmk.grid": grid.name}
            parent = next((run for run in self.held[kind].values() if tags.items() <= run.data.tags.items()), None)
            tags["lmk.root"] = str(self.root)
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
