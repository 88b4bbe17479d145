"""What a grid's parent run holds of all its cells: their scores in one file, and a digest of what the store has got.

A table then asks a server for one run, not for a thousand. It is written while no cell runs: that would make it untrue
in a moment, and every evaluation that ends would send the scores of all others again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.mirror.curves import files_of
from lmk_experiments.mirror.known import Cells
from lmk_experiments.mirror.looking import look_at
from lmk_experiments.mirror.plain import TROUBLE, NeedsMlflow
from lmk_experiments.mirror.read import COLLECTED, GRID_SCORES, Collected, Seen, runs_with
from lmk_experiments.mirror.store import ROOT_ID, Store
from lmk_experiments.mirror.wanted import Wanted
from lmk_experiments.mirror.writer import Writer, digest
from lmk_experiments.records import GridRecord, load_grids

if TYPE_CHECKING:
    from mlflow.entities import Run

SYNCED = "lmk.synced"
"""The tag of a parent run with the digest of everything that the store holds of the grid's cells."""
_FORM = 1
"""Of the digest; another number makes every grid be synced once more."""


def complete(root: Path, grid: GridRecord, uri: str | None = None) -> Seen | None:
    """The run that holds a grid's scores, where the store has got all that the records now hold of the grid.

    ``None`` where it has not, or where that cannot be seen without MLflow; then a sync is needed. That somebody changed
    or deleted the run of a cell is not seen here: a sync sees it.
    """
    root = root.resolve()
    store = look_at(root, uri)
    if store is None:
        return None
    with suppress(NeedsMlflow, *TROUBLE):
        with ThreadPoolExecutor(1, thread_name_prefix="look") as beside:
            looked = beside.submit(_parent, store, grid.name)
            every, unreadable = load_grids(root)
            cells = Cells(root, every, [grid])
        parent = looked.result()
        if parent is None or unreadable or cells.warnings:
            return None
        state = state_of(grid, cells.of(grid.name))
        if state is not None and parent.data.tags.get(SYNCED) == state:
            return Seen(store, None, {grid.name: Collected(parent, parent.data.tags.get(COLLECTED, ""))})
    return None


def collect(writer: Writer, parent: Run, cells: Iterable[Wanted | None], state: str) -> Collected | None:
    """Write the scores of a grid whose cells are all in the store into its parent run, and that they are.

    Args:
        state: from ``state_of``, before anything of the cells was written: what is new since is not in the store.

    Returns:
        ``None`` where the artifact store has not taken them.
    """
    text = _text(cells)
    mark = digest(text)
    if parent.data.tags.get(COLLECTED) != mark and not writer.upload(parent, GRID_SCORES, text):
        return None
    writer.set_tags(parent, {COLLECTED: mark, SYNCED: state})
    return Collected(parent, mark)


def state_of(grid: GridRecord, cells: Iterable[Wanted | None]) -> str | None:
    """A digest of what a store should hold of a grid, its table included; ``None`` while one of its cells runs."""
    state = hashlib.sha256(json.dumps([_FORM, asdict(grid)], sort_keys=True).encode())
    for cell in cells:
        if cell is not None and cell.status == "RUNNING":
            return None
        state.update(json.dumps(None if cell is None else _parts(cell), sort_keys=True).encode())
    return state.hexdigest()[:32]


def _parts(cell: Wanted) -> list[Any]:
    place = cell.place
    return [
        [place.kind, place.id, place.title, cell.status, cell.start, cell.end],
        [cell.tags, cell.params, cell.scores, cell.artifacts],
        {name: mark for name, (_, mark) in cell.files.items()},
        {file: _size(cell.cell.folder / file) for file in files_of(place.kind)},
    ]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _text(cells: Iterable[Wanted | None]) -> str:
    """As ``{evaluation: {"name", "scores"}}``, scores as in the cell's own ``scores.json``."""
    held: Mapping[str, Any] = {
        cell.place.id: {"name": cell.place.title, "scores": json.loads(cell.artifacts["scores.json"])}
        for cell in cells
        if cell is not None and cell.place.kind == "evaluation" and "scores.json" in cell.artifacts
    }
    return json.dumps(held, ensure_ascii=False, separators=(",", ":")) + "\n"


def _parent(store: Store, grid: str) -> Run | None:
    # The tag that few runs have comes first: a reader of tables looks for that.
    tags = {"lmk.grid": grid, "lmk.kind": "grid", ROOT_ID: store.root.id}
    return next(iter(runs_with(store, "evaluation", tags).values()), None)
