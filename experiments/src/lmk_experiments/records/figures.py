"""The figures of a recorded grid: the files of its analyses, as their ``DONE.json`` names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_experiments.records.cell import analysis_cell
from lmk_experiments.records.grid import AnalysisRecord, GridRecord

_ORDER = (".png", ".svg", ".csv", ".json")


def figure_files(root: Path, one: AnalysisRecord, done: dict[str, Any] | None = None) -> list[Path]:
    """The files of an analysis that is done and that are there, pictures first; none of one that is not."""
    cell = analysis_cell(root, one.id)
    found = cell.done() if done is None else done
    names = [] if found is None else [name for name in found["files"] if Path(name).name == name]
    files = [cell.folder / name for name in sorted(names, key=lambda name: (_ORDER.index(_ending(name)), name))]
    return [file for file in files if file.is_file()]


def has_table(record: GridRecord) -> bool:
    """Whether the grid has rows; one of analyses alone has none."""
    return bool(record.rows or record.elsewhere)


def figures_text(root: Path, record: GridRecord) -> str:
    """The files of every analysis of a grid, or the state of those that are not done."""
    lines = []
    for one in record.analyses:
        seed = f", seed {one.seed}" if len({other.seed for other in record.analyses}) > 1 else ""
        files = figure_files(root, one)
        lines.append(f"{one.row}{seed}: {one.title if files else analysis_cell(root, one.id).state()}")
        lines += [f"  {file}" for file in files]
    return "\n".join(lines)


def _ending(name: str) -> str:
    found = Path(name).suffix
    return found if found in _ORDER else _ORDER[-1]
