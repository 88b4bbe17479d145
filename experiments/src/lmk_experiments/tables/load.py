"""A table's YAML file, checked against the grid that it is for before anything is trained."""

from __future__ import annotations

from typing import Any

from lmk_experiments.configs import ConfigError, Document, Problem, explain, find_file, load_document, validate
from lmk_experiments.grids import Grid, Plan
from lmk_experiments.tables.spec import TableSpec


def load_table(grid: Grid, plan: Plan) -> dict[str, Any] | None:
    """The table of a grid file as plain values, or ``None`` where the grid names none.

    Raises:
        ConfigError: a mistake in the file, or a row, suite or task that the grid does not have.
    """
    if plan.table is None:
        return None
    try:
        path = find_file(plan.table, "tables", beside=grid.document.folder)
    except ConfigError as error:
        raise ConfigError([grid.document.problem(("table",), problem.message) for problem in error.problems]) from None
    if not plan.rows and not plan.elsewhere:
        message = "this grid has no rows, so it has no table: `evaluate` says on what rows are tested"
        raise ConfigError([grid.document.problem(("table",), message)])
    document = load_document(path)
    spec = validate(TableSpec, document.value, document.problem)
    problems = [*_row_problems(spec, plan, document), *_column_problems(spec, plan, document)]
    if problems:
        raise ConfigError(problems)
    return spec.model_dump(mode="json", exclude_unset=True)


def load_spec_of(grid: str) -> tuple[TableSpec, str]:
    """The table and the title of a grid by its name or file, without planning it.

    A name without a grid file will do where a table of that name ships.

    Raises:
        ConfigError: there is no such table, or it is wrong.
    """
    beside, title, table = None, grid, grid
    try:
        path = find_file(grid, "grids")
    except ConfigError:
        path = None
    if path is not None:
        document = load_document(path)
        beside, title = document.folder, str(document.value.get("title") or grid)
        table = str(document.value.get("table") or document.value.get("grid", grid))
    document = load_document(find_file(table, "tables", beside=beside))
    return validate(TableSpec, document.value, document.problem), title


def _row_problems(spec: TableSpec, plan: Plan, document: Document) -> list[Problem]:
    rows = list(dict.fromkeys(row.row for row in (*plan.rows, *plan.elsewhere)))
    return [
        document.problem(("rows", index), f"the grid has no row {row.row!r}; {explain(row.row, rows)}")
        for index, row in enumerate(spec.rows or ())
        if row.row not in rows
    ]


def _column_problems(spec: TableSpec, plan: Plan, document: Document) -> list[Problem]:
    suites = {evaluation.suite.name: evaluation.suite for _, evaluation in plan.evaluations}
    problems = []
    for index, column in enumerate(spec.columns):
        at = ("columns", index)
        if column.suite is None:
            continue
        if column.suite not in suites:
            found = f"the grid has no suite {column.suite!r}; {explain(column.suite, suites)}"
            problems.append(document.problem((*at, "suite"), found))
            continue
        tasks = [task.name for task in suites[column.suite].tasks]
        asked = (column.task,) if isinstance(column.task, str) else column.task or ()
        for task in asked:
            if task not in tasks:
                found = f"suite {column.suite!r} has no task {task!r}; {explain(task, tasks)}"
                problems.append(document.problem((*at, "task"), found))
    return problems
