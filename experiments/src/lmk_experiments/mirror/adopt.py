"""Runs that were made before their root had an identity, or for a root that this one is a copy of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lmk_experiments.mirror.marks import FILE, Marks
from lmk_experiments.mirror.read import active_run, runs_of_root, runs_with
from lmk_experiments.mirror.store import KINDS, OWN, ROOT_ID, Kind, Store, key_of
from lmk_experiments.mirror.writer import Writer
from lmk_experiments.records import Cell

if TYPE_CHECKING:
    from mlflow.entities import Run

_CELLS = ("trainings", "pretrainings", "evaluations")


def adopt(root: Path, store: Store, writer: Writer, held: dict[Kind, dict[str, Run]]) -> None:
    """Give runs that are this root's by all signs its identity, and add them to ``held``; once a store is enough.

    In the root's own database every run is the root's: another identity or path in it is from before the root was
    moved or copied together with it. In a shared store a run without an identity is the root's where its path is, it
    was mirrored there before, and it holds that cell or grid: a root of another machine may have had the same path.
    """
    key = key_of(root, store.uri)
    if key == OWN:
        if not any(held.values()):
            writer.may_write()
            _take_over(root, store, writer, held)
        return
    if not store.root.adopts or key in store.root.adopted:
        return
    writer.may_write()
    for kind in KINDS:
        for run in runs_with(store, kind, {"lmk.root": str(root)}).values():
            if ROOT_ID not in run.data.tags and _is_here(root, run):
                writer.set_tags(run, {ROOT_ID: store.root.id})
        held[kind] = runs_of_root(store, kind)
    store.root.with_adopted(key).save(root)


def _is_here(root: Path, run: Run) -> bool:
    grid, cell = run.data.tags.get("lmk.grid"), run.data.tags.get("lmk.cell")
    if grid is not None:
        return (root / "grids" / grid).is_dir()
    return cell is not None and any((root / folder / cell).is_dir() for folder in _CELLS)


def _take_over(root: Path, store: Store, writer: Writer, held: dict[Kind, dict[str, Run]]) -> None:
    """All runs of the root that the first remembered run is of."""
    for folder in sorted(root.glob(f"*/*/{FILE}")):
        run_id = Marks.load(Cell(folder.parent), store).run_id
        run = None if run_id is None else active_run(store, run_id)
        if run is None:
            continue
        before, path = run.data.tags.get(ROOT_ID), run.data.tags.get("lmk.root", str(root))
        for kind in KINDS:
            for moved in runs_with(store, kind, {"lmk.root": path}).values():
                if moved.data.tags.get(ROOT_ID) == before:
                    writer.set_tags(moved, {ROOT_ID: store.root.id, "lmk.root": str(root)})
            held[kind] = runs_of_root(store, kind)
        return
