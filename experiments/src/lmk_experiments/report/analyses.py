"""The section of figures: each analysis drawn, said in words, with its numbers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from lmk_experiments.records import Cell, analysis_cell
from lmk_experiments.records.figures import figure_files
from lmk_experiments.records.grid import AnalysisRecord
from lmk_experiments.report.captions import caption
from lmk_experiments.report.gather import Gathered
from lmk_experiments.report.inline import UnsafeFigure, inline_svg
from lmk_experiments.report.parts import Long, data_table, paragraph, section, text

_ROWS = 200
"""Lines of a CSV file that the page shows; the file has all."""


def analyses_part(gathered: Gathered) -> str:
    """Every analysis of the grid; nothing where it has none."""
    record = gathered.record
    if not record.analyses:
        return ""
    several = len({one.seed for one in record.analyses}) > 1
    figures = [_figure(gathered.root, one, index, several) for index, one in enumerate(record.analyses)]
    return section("analyses", "Analyses", f'<div class="drawings">{"".join(figures)}</div>')


def _figure(root: Path, one: AnalysisRecord, index: int, several: bool) -> str:
    cell = analysis_cell(root, one.id)
    heading = f"{one.title}, seed {one.seed}" if several and one.trainings else one.title
    done = cell.done()
    if done is None:
        return f"<figure><figcaption>{text(heading)}</figcaption>{paragraph(f'Not done: {cell.state()}.')}</figure>"
    files = figure_files(root, one, done)
    said = _words(cell, one, done)
    drawn = _drawn(files, f"figure{index}", heading, said or heading)
    numbers = _summary(heading, done["summary"]) + "".join(_data(file) for file in files if file.suffix == ".csv")
    listed = f"Files in {cell.folder}: {', '.join(file.name for file in files)}."
    return (
        f"<figure><figcaption>{text(heading)}</figcaption>{drawn}{paragraph(said) if said else ''}"
        f"<details><summary>The numbers</summary>{numbers}{paragraph(listed)}</details></figure>"
    )


def _words(cell: Cell, one: AnalysisRecord, done: dict[str, Any]) -> str:
    try:
        return caption(one.kind, cell.config.get("options", {}), done["summary"])
    except ValueError:  # the record of the cell cannot be read
        return ""


def _drawn(files: list[Path], prefix: str, heading: str, said: str) -> str:
    file = next((file for file in files if file.suffix == ".svg"), None)
    if file is None:
        return paragraph("Its picture is not there any more; what was found stands below.")
    try:
        return inline_svg(file.read_bytes(), prefix, heading, said)
    except (UnsafeFigure, OSError) as error:
        return paragraph(f"{file} is not shown: {error}.")


def _summary(name: str, summary: list[Any]) -> str:
    lines = [line for line in summary if isinstance(line, dict)]
    keys = list(dict.fromkeys(str(key) for line in lines for key in line))
    rows = [[_shown(line.get(key)) for key in keys] for line in lines]
    return data_table(f"{name}: summary", [key.replace("_", " ") for key in keys], rows) if rows else ""


def _shown(value: Any) -> str | float | int | None:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _data(file: Path) -> str:
    """The data of a plot: the file's lines, or the first of very many."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
    except (OSError, ValueError, csv.Error) as error:
        return paragraph(f"{file.name} cannot be read: {error}.")
    kept = [[_number(value) for value in row] for row in rows[:_ROWS]]
    left = f" The first {_ROWS} of {len(rows)} lines." if len(rows) > _ROWS else ""
    return paragraph(f"{file.name}:{left}") + data_table(file.name, header, kept)


def _number(value: str) -> str | float | Long | None:
    try:
        return float(value) if value else None
    except ValueError:
        return value
