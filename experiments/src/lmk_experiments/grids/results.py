"""Rows of a grid whose results were made elsewhere: read from their folder, or from the grid's own record."""

from __future__ import annotations

from pathlib import Path

from lmk_eval.suites import Suite
from lmk_experiments.configs import ConfigError
from lmk_experiments.elsewhere import Elsewhere, read_results
from lmk_experiments.grids.load import Grid
from lmk_experiments.records import load_grid


def results_rows(grid: Grid, suites: list[Suite], taken: set[str], root: Path, warnings: list[str]) -> list[Elsewhere]:
    """The rows from elsewhere, their results read, or as the grid's record keeps them where their folder is gone.

    Raises:
        ConfigError: a name that another row has, or a folder that holds no results for this grid.
    """
    found: list[Elsewhere] = []
    problems = []
    for index, row in enumerate(grid.file.rows):
        if row.row in taken:
            message = f"row {row.row!r} stands in the table twice"
            problems.append(grid.document.problem(("rows", index, "row"), message))
        taken.add(row.row)
        folder = (grid.document.folder / Path(row.results).expanduser()).resolve()
        try:
            if not folder.is_dir():
                found.append(_kept(grid.file.grid, row.row, folder, suites, root))
                warnings.append(
                    f"row {row.row}: {folder} is not there any more; its scores are those that were kept when the grid "
                    "was last run"
                )
                continue
            found.append(read_results(row.row, folder, suites))
        except ValueError as error:
            problems.append(grid.document.problem(("rows", index, "results"), str(error)))
    if problems:
        raise ConfigError(problems)
    return found


def _kept(grid: str, row: str, folder: Path, suites: list[Suite], root: Path) -> Elsewhere:
    """What the record of a grid holds of a row whose folder is not there.

    Raises:
        ValueError: it holds nothing of that folder, or not what the suites want now.
    """
    try:
        record = load_grid(root, grid)
    except (ValueError, OSError):
        raise ValueError(f"no such folder: {folder}") from None
    for one in record.elsewhere:
        wanted = {suite.name: {task.name for task in suite.tasks} for suite in suites}
        held = {suite: {*one.scores.get(suite, {}), *_task_names(one.missing.get(suite, []))} for suite in wanted}
        if (one.row, one.results) == (row, str(folder)) and held == wanted:
            return Elsewhere(one.row, one.results, one.scores, one.missing)
    raise ValueError(f"no such folder: {folder} (what was kept of it is of other suites, or of another folder)")


def _task_names(missing: list[str]) -> list[str]:
    """Of what is missing, ``Task`` or ``Task (split or subset)``, the tasks."""
    return [one.partition(" (")[0] for one in missing]
