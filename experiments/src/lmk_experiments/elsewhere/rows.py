"""Rows from elsewhere in a grid's records: rows as ours are, whose evaluations are no cells."""

from __future__ import annotations

from lmk_experiments.records import GridRecord, RowRecord

ABSENT = "–"
"""Stands in a table for a score that the results do not hold."""
_PREFIX = "elsewhere:"


def is_elsewhere(identity: str) -> bool:
    """Whether an evaluation's identity is that of a row from elsewhere, and so no cell's."""
    return identity.startswith(_PREFIX)


def rows_of(grid: GridRecord) -> list[RowRecord]:
    """The grid's rows from elsewhere. They have no training."""
    return [
        RowRecord(one.row, 0, "", {}, False, {suite: f"{_PREFIX}{one.row}:{suite}" for suite in one.scores})
        for one in grid.elsewhere
    ]


def scores_of(grid: GridRecord) -> dict[str, dict[str, dict[str, float]]]:
    """The scores of these rows by the identities that ``rows_of`` gives: task to metric to value."""
    return {f"{_PREFIX}{one.row}:{suite}": held for one in grid.elsewhere for suite, held in one.scores.items()}
