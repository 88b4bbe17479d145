"""From the scores by query of evaluations to a cell of a table: each query's share of its value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lmk_experiments.elsewhere import is_elsewhere
from lmk_experiments.records import RowRecord, evaluation_cell
from lmk_experiments.tables.source import Source, tasks_of
from lmk_experiments.tables.spec import Column, TableSpec

if TYPE_CHECKING:
    from lmk_experiments.statistics import Contributions, PerQuery


def stamps(spec: TableSpec, source: Source, seeds: Sequence[Sequence[RowRecord]], at: int) -> list[list[object]]:
    """Of each row, the evaluations that a column's shares come from and their files of scores by query, as JSON values.

    The same stamps mean the same shares: an evaluation that is done does not change.
    """
    parts = _parts(spec, spec.columns[at])
    used = [seed.evaluations.get(part.suite or "", "") for part in parts for row in seeds for seed in row]
    files = {identity: _files(source, identity) for identity in dict.fromkeys(used) if identity in source.scores}
    return [[[part.suite, one, files.get(one)] for part in parts for one in _evaluations(row, part)] for row in seeds]


def _evaluations(row: Sequence[RowRecord], column: Column) -> list[str]:
    return [seed.evaluations.get(column.suite or "", "") for seed in row]


def _files(source: Source, identity: str) -> list[tuple[str, int, int]]:
    if is_elsewhere(identity):
        return []
    paths = sorted((evaluation_cell(source.root, identity).folder / "per_query").glob("*"))
    return [(path.name, (found := path.stat()).st_size, found.st_mtime_ns) for path in paths]


def _parts(spec: TableSpec, column: Column) -> list[Column]:
    """The columns of scores that a column is made of: itself, or those whose mean it is."""
    return [column] if column.mean_of is None else [spec.columns[spec.averaged(name)] for name in column.mean_of]


def cell_shares(
    spec: TableSpec, source: Source, seeds: Sequence[Sequence[RowRecord]]
) -> Callable[[int, int], Contributions]:
    """A function of a row's and a column's place: each query's share of the value, which is their sum.

    Of a row of several seeds a query's share is its mean over those with a score, as the value is theirs.

    Args:
        seeds: of each row of the table, its seeds.
    """
    from lmk_experiments.statistics import PerQuery
    from lmk_experiments.statistics.queries import mean_of, mean_over_seeds

    reader = PerQuery(source.root)

    def shares(row: int, at: int) -> Contributions:
        parts = _parts(spec, spec.columns[at])
        whole = [
            seed
            for seed in seeds[row]
            if all(seed.evaluations.get(part.suite or "") in source.scores for part in parts)
        ]
        return mean_over_seeds([mean_of([_of_seed(reader, part, source, seed) for part in parts]) for seed in whole])

    return shares


def _of_seed(reader: PerQuery, column: Column, source: Source, row: RowRecord) -> Contributions:
    from lmk_experiments.statistics import Untested
    from lmk_experiments.statistics.queries import mean_of

    identity = row.evaluations[column.suite or ""]
    if is_elsewhere(identity):
        raise Untested("results from elsewhere have no scores by query")
    cell = evaluation_cell(source.root, identity)
    parts, tasks = [], tasks_of(column, source)
    for task in tasks:
        try:
            scores = source.scores[identity].get(task, {})
            if column.metric not in scores:
                raise Untested("a seed has no such score")
            parts.append(reader.contributions(cell, task, column.metric, scores))
        except Untested as reason:
            raise Untested(f"{task}: {reason}" if len(tasks) > 1 else str(reason)) from None
    return {query: value * column.scale for query, value in mean_of(parts).items()}
