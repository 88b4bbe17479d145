"""What a sync knows before it writes: what the store should hold of the cells, and the runs that it has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lmk_experiments.mirror.ended import ended
from lmk_experiments.mirror.marks import Marks
from lmk_experiments.mirror.store import Kind
from lmk_experiments.mirror.wanted import Place, Wanted, cell_of, places, wanted
from lmk_experiments.records import GridRecord

if TYPE_CHECKING:
    from mlflow.entities import Run


class Cells:
    """The cells of some grids, and what a store should hold of each: ``None`` of one that was not started."""

    def __init__(self, root: Path, every: list[GridRecord], chosen: list[GridRecord]) -> None:
        self.warnings: list[str] = []
        # A cell may stand in grids that were not asked for: its tags name them too.
        names = {grid.name for grid in chosen}
        self.places = [place for place in places(every).values() if place.grids & names]
        over = ended(cell_of(root, place) for place in self.places)
        self.wanted = [self._wanted(root, place, cell_of(root, place).folder in over) for place in self.places]

    def _wanted(self, root: Path, place: Place, over: bool) -> Wanted | None:
        try:
            return wanted(root, place, ended=over)
        except ValueError as error:
            # One cell with a broken file does not keep the others from the store.
            self.warnings.append(str(error))
            return None

    def of(self, grid: str) -> list[Wanted | None]:
        """Those of one grid."""
        return [cell for place, cell in zip(self.places, self.wanted, strict=True) if grid in place.grids]


class Held:
    """The runs that a store had when a sync began, by what is asked of them."""

    def __init__(self, runs: Mapping[Kind, Mapping[str, Run]]) -> None:
        self.runs = runs
        self.of_cell: dict[tuple[Kind, str], list[Run]] = {}
        self.of_grid: dict[tuple[Kind, str], list[str]] = {}
        for kind, some in runs.items():
            for run in some.values():
                tags = run.data.tags
                self.of_cell.setdefault((kind, tags.get("lmk.cell", "")), []).append(run)
                if tags.get("lmk.kind") == "grid":
                    self.of_grid.setdefault((kind, tags.get("lmk.grid", "")), []).append(run.info.run_id)

    def find(self, place: Place, marks: Marks) -> tuple[Run | None, int]:
        """The run of a cell: the one remembered, else the oldest one with its tags; and how many more there are."""
        marked = None if marks.run_id is None else self.runs[place.kind].get(marks.run_id)
        if marked is not None:
            return marked, 0
        found = self.of_cell.get((place.kind, place.id), [])
        return (found[0], len(found) - 1) if found else (None, 0)

    def parents(self, place: Place) -> set[str]:
        """The ids of the runs of grids that a cell is in."""
        return {run_id for grid in place.grids for run_id in self.of_grid.get((place.kind, grid), ())}
