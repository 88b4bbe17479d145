"""What a cell's folder remembers of its mirror: ``mlflow.json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmk_experiments.mirror.curves import Curve
from lmk_experiments.mirror.store import OWN, Store, key_of
from lmk_experiments.records import Cell, read_json, write_json

FILE = "mlflow.json"


@dataclass
class Marks:
    """Which run a cell has in which store, and what of it needs no second look.

    Losing the file costs a search and some comparing, never a second run or a point written twice.

    Attributes:
        store: the store's address without credentials; a root's own database is named relative to the root, so that
            a root that is moved keeps its runs.
        curves: file to ``{"offset", "lines", "steps": {metric: last step}}``; nothing of a file whose writing may have
            been cut short, so that the store has to be asked.
        root: the root's identity.
        artifacts: file name to the digest of what was uploaded.
    """

    file: Path
    store: str
    root: str
    run_id: str | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def load(cell: Cell, store: Store) -> Marks:
        """The marks of ``cell`` for ``store``: empty where there are none, or where they are of another store."""
        root = cell.root.resolve()
        marks = Marks(cell.folder / FILE, key_of(root, store.uri), store.root.id)
        try:
            value = read_json(marks.file) or {}
        except ValueError:
            return marks
        if not isinstance(value, dict):
            return marks
        if value.get("uri") != marks.store:
            return marks
        # A copied root has another identity: on a shared store its runs are its own, not those of the original.
        # Marks from before there were identities name the path.
        theirs = value.get("root")
        if marks.store != OWN and theirs != marks.root and not (store.root.adopts and theirs == str(root)):
            return marks
        try:
            run_id, written = value["run_id"], value["written"]
            marks.curves, marks.artifacts = _curves(written["curves"]), dict(written["artifacts"])
        except (KeyError, TypeError, ValueError):
            marks.forget()
            return marks
        marks.run_id = run_id
        return marks

    def save(self) -> None:
        """Write ``mlflow.json``."""
        written = {"curves": self.curves, "artifacts": self.artifacts}
        write_json(self.file, {"uri": self.store, "root": self.root, "run_id": self.run_id, "written": written})

    def forget(self) -> None:
        """Nothing is known of the run any more."""
        self.run_id, self.curves, self.artifacts = None, {}, {}


def _curves(value: Any) -> dict[str, Curve]:
    """As they were saved; one of another shape, such as an older version's, is not known."""
    found = value if isinstance(value, dict) else {}
    return {
        file: one
        for file, one in found.items()
        if isinstance(one, dict) and one.keys() >= {"offset", "lines", "steps"} and isinstance(one["steps"], dict)
    }
