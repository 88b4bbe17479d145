"""Published numbers: ``published/<grid>.csv``, beside ours or alone."""

from __future__ import annotations

import csv
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.configs import shipped_folder
from lmk_experiments.tables.spec import Column

HEADER = ("row", "suite", "task", "metric", "value", "source")
"""`task` is empty for the suite's own figure; `value` is in the units of the publication (x 100)."""


@dataclass(frozen=True)
class Published:
    """What was published for a grid.

    Attributes:
        name: said under the table, for example ``published/table1.csv``.
        values: (row, suite, task) to metric to value; the task is empty for the suite's own figure.
        sources: where the numbers stand in print.
    """

    name: str
    values: dict[tuple[str, str, str], dict[str, float]]
    sources: tuple[str, ...]

    @property
    def rows(self) -> list[str]:
        """The rows with a number, in the file's order."""
        return list(dict.fromkeys(row for row, _, _ in self.values))

    def tasks(self, suite: str) -> list[str]:
        """The tasks of ``suite`` with a number, in the file's order."""
        return list(dict.fromkeys(task for _, held, task in self.values if held == suite and task))

    def metrics(self, suite: str, task: str) -> list[str]:
        """The metrics of a task with a number, in the file's order."""
        found = [held for (_, s, t), held in self.values.items() if (s, t) == (suite, task)]
        return list(dict.fromkeys(metric for held in found for metric in held))

    def value(self, row: str, column: Column) -> float | None:
        """What was published for ``row`` in a column, in the column's units; ``None`` where nothing was.

        Of a mean of columns only what is printed as such.
        """
        if column.suite is None:
            return next(iter(self.values.get((row, column.published or "", ""), {}).values()), None)
        if column.task is None:
            found = [self._one(row, column, "")]
            if (row, column.suite, "") not in self.values:
                found = [self._one(row, column, task) for task in self.tasks(column.suite)]
        else:
            tasks = (column.task,) if isinstance(column.task, str) else column.task
            found = [self._one(row, column, task) for task in tasks]
        numbers = [value for value in found if value is not None]
        if not numbers or len(numbers) < len(found):
            return None
        # The file is in hundredths, whatever the column shows.
        return (
            numbers[0] if len(numbers) == 1 and column.scale == 100 else statistics.fmean(numbers) * column.scale / 100
        )

    def _one(self, row: str, column: Column, task: str) -> float | None:
        held = self.values.get((row, column.suite or "", task), {})
        if column.metric in held:
            return held[column.metric]
        # Print names a metric, a spec may ask for "the main one": where only one is there, it is meant.
        plain, _, group = column.metric.partition("[")
        only = [metric for metric in held if metric.partition("[")[2] == group]
        either_main = plain == "main_score" or [metric.partition("[")[0] for metric in only] == ["main_score"]
        return held[only[0]] if len(only) == 1 and either_main else None


def load_published(grid: str, folder: Path | None = None) -> Published:
    """The published numbers of ``grid``; an empty file means that nothing was published.

    Args:
        folder: where the files are; by default those that ship.

    Raises:
        ValueError: there is no such file, or a line of it is wrong; the message names file, line and column.
    """
    where = folder or shipped_folder("published")
    path = where / f"{grid}.csv"
    if not path.is_file():
        held = ", ".join(sorted(file.stem for file in where.glob("*.csv"))) or "(none)"
        raise ValueError(f"no published numbers for grid {grid!r}: {path} is not there; published: {held}")
    values: dict[tuple[str, str, str], dict[str, float]] = {}
    sources: dict[str, None] = {}
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(line for line in stream if line.strip())
        if reader.fieldnames is not None and tuple(reader.fieldnames) != HEADER:
            raise ValueError(f"{path}:1: the header is {','.join(reader.fieldnames)!r}, must be {','.join(HEADER)!r}")
        for number, line in enumerate(reader, start=2):
            key, metric, value = _parsed(path, number, line)
            held = values.setdefault(key, {})
            if metric in held:
                raise ValueError(f"{path}:{number}: a second value for {', '.join(filter(None, key))}, {metric}")
            held[metric] = value
            sources[line["source"]] = None
    return Published(f"published/{path.name}", values, tuple(source for source in sources if source))


def _parsed(path: Path, number: int, line: dict[str, str]) -> tuple[tuple[str, str, str], str, float]:
    if None in line or None in line.values():
        raise ValueError(f"{path}:{number}: this line has not {len(HEADER)} columns: {', '.join(HEADER)}")
    for column in ("row", "suite", "metric"):
        if not line[column].strip():
            raise ValueError(f"{path}:{number}: {column} is empty")
    try:
        value = float(line["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{path}:{number}: value is {line['value']!r}, must be a number")
    return (line["row"], line["suite"], line["task"]), line["metric"], value
