"""A table for each suite, with a column for each of its tasks and for each group of a task (its languages, say)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lmk_experiments.records import GridRecord
from lmk_experiments.records.groups import parse_group
from lmk_experiments.tables.collect import collect, published_table
from lmk_experiments.tables.given import default_spec, grid_spec
from lmk_experiments.tables.published import Published
from lmk_experiments.tables.significance import Comparing
from lmk_experiments.tables.source import Source
from lmk_experiments.tables.spec import Column, TableSpec, TableSpecError
from lmk_experiments.tables.table import Table

_PLAIN_KEYS = ("subset", "split")
"""Groups whose value says enough: a language is not headed `subset=de`."""


def task_tables(
    grid: GridRecord,
    source: Source,
    spec: TableSpec | None = None,
    published: Published | None = None,
    *,
    tests: Comparing | None = None,
) -> list[Table]:
    """The tables of a grid's suites, in the order of the spec's columns; rows and labels are the spec's.

    Args:
        tests: as of ``collect``.

    Raises:
        TableSpecError: as ``collect``.
    """
    spec = spec or grid_spec(grid) or default_spec(grid, source)

    def metrics(suite: str, task: str) -> Iterable[str]:
        held = [source.scores.get(row.evaluations.get(suite, ""), {}).get(task, {}) for row in grid.rows]
        own = [metric for scores in held for metric in scores]
        return dict.fromkeys([*own, *(published.metrics(suite, task) if published else ())])

    title = spec.title or grid.title or grid.name
    return [
        collect(
            grid, source, _spec(spec, f"{title}: {source.titles.get(suite, suite)}", columns), published, tests=tests
        )
        for suite, columns in _suites(spec, lambda suite: source.tasks.get(suite, []), metrics)
    ]


def published_task_tables(spec: TableSpec, published: Published, grid: str, title: str) -> list[Table]:
    """The tables of the suites with published numbers by task, those numbers alone.

    Raises:
        ValueError: no suite has any.
    """
    title = spec.title or title
    tables = [
        published_table(_spec(spec, f"{title}: {suite}", columns), published, grid, title)
        for suite, columns in _suites(spec, published.tasks, published.metrics)
    ]
    if not tables:
        raise ValueError(f"{published.name} holds no numbers by task, only those of whole suites")
    return tables


def _spec(spec: TableSpec, title: str, columns: Sequence[Column]) -> TableSpec:
    """The spec with other columns, checked again."""
    held = spec.model_dump(mode="json", exclude_unset=True) | {"title": title, "notes": []}
    return TableSpec.model_validate(held | {"columns": [column.model_dump(exclude_unset=True) for column in columns]})


def _suites(
    spec: TableSpec, tasks: Callable[[str], Sequence[str]], metrics: Callable[[str, str], Iterable[str]]
) -> list[tuple[str, list[Column]]]:
    first: dict[str, Column] = {}
    for column in spec.columns:
        if column.suite is not None:
            first.setdefault(column.suite, column)
    if not first:
        raise TableSpecError("the table has no column of a suite, so it has no tasks", "columns")
    found = []
    for suite, like in first.items():
        columns = [one for task in tasks(suite) for one in _columns(like, task, list(metrics(suite, task)))]
        if columns:
            mean = [_like(like, "Avg.", None, like.metric.partition("[")[0])] if len(tasks(suite)) > 1 else []
            found.append((suite, [*columns, *mean]))
    return found


def _columns(like: Column, task: str, metrics: list[str]) -> list[Column]:
    """The column of a task, and under the task's name one of each of its groups."""
    plain = like.metric.partition("[")[0]
    metric = plain if plain in metrics or "main_score" not in metrics else "main_score"
    if not metrics or metric in metrics or plain == "main_score":
        whole = metric
    else:
        whole = next((name for name in metrics if "[" not in name), metric)
    groups = _groups(metrics, whole)
    if not groups:
        return [_like(like, task, None, whole, task)]
    return [
        _like(like, "Avg.", task, whole, task),
        *(_like(like, _heading(metric), task, metric, task) for metric in groups),
    ]


def _groups(metrics: list[str], whole: str) -> list[str]:
    """The grouped metrics of one kind: of the metric that is shown, or for the main one of the first with groups."""
    parsed = [(group.metric, name) for name in metrics if (group := parse_group(name))]
    kinds = [kind for kind, _ in parsed]
    kind = next(iter(kinds), None) if whole == "main_score" and whole not in kinds else whole
    return [name for other, name in parsed if other == kind]


def _heading(metric: str) -> str:
    group = parse_group(metric)
    assert group is not None, "only grouped metrics come here"
    return group.value if group.key in _PLAIN_KEYS else f"{group.key} {group.value}"


def _like(like: Column, title: str, group: str | None, metric: str, task: str | None = None) -> Column:
    return Column(
        title=title,
        group=group,
        suite=like.suite,
        task=task,
        metric=metric,
        digits=like.digits,
        scale=like.scale,
        best=like.best,
    )
