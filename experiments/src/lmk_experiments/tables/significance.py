"""Which of a table's differences to the baseline are more than noise, and how sure each value is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmk_experiments.tables.spec import Column, TableSpec
from lmk_experiments.tables.table import Comparison, Significance, TableRow

if TYPE_CHECKING:
    from lmk_experiments.statistics import Contributions

Shares = Callable[[int, int], "Contributions"]
"""Of a row and a column by their places: each query's share of the cell's value, in the column's units."""
_FIGURE_TOLERANCE = 1e-3
"""Of a value x 100: what rounding to six digits can come to over a suite."""


@dataclass(frozen=True)
class Comparing:
    """What is asked for.

    Attributes:
        level: the chance of any false mark in a column.
        intervals: whether values and differences get 95% intervals, which takes as long as the tests again.
    """

    level: float = 0.05
    intervals: bool = False


@dataclass
class _Column:
    """A column's shares by row; rows without them say why."""

    shares: dict[int, Contributions]
    untested: dict[int, str]


def tested(
    spec: TableSpec, rows: Sequence[TableRow], blocks: Sequence[Sequence[int]], shares: Shares, tests: Comparing
) -> tuple[list[TableRow], Significance]:
    """The rows with their comparisons to the baseline, and what is said of the tests under the table.

    Every column is a family of its own: Holm's correction counts the comparisons of a column, in all blocks.

    Args:
        blocks: places of the rows that are compared with each other, each with one baseline or none.
        shares: raises ``Untested`` where a cell has no scores by query.
    """
    found: dict[tuple[int, int], Comparison] = {}
    bounds: dict[tuple[int, int], tuple[float, float]] = {}
    reasons: dict[str, list[str]] = {}
    for at, column in enumerate(spec.columns):
        held = _column(rows, at, column, shares)
        compared = _compare(rows, blocks, held, tests)
        adjusted = _holm([one.p for one in compared.values()])
        for (row, one), corrected in zip(compared.items(), adjusted, strict=True):
            found[row, at] = replace(
                one, adjusted=corrected, significant=corrected < tests.level, comparisons=len(compared)
            )
        if tests.intervals:
            bounds.update({(row, at): interval for row, interval in _intervals(held).items()})
        for row, reason in held.untested.items():
            reasons.setdefault(f"{column.name}: {reason}", []).append(rows[row].label)
    baselines = [rows[place].label for block in blocks for place in block if rows[place].baseline]
    marked = [
        replace(
            row,
            cells=tuple(
                replace(cell, comparison=found.get((place, at)), interval=bounds.get((place, at)))
                for at, cell in enumerate(row.cells)
            ),
        )
        for place, row in enumerate(rows)
    ]
    return marked, Significance(tests.level, tuple(baselines), _told(reasons, len(rows)))


def _column(rows: Sequence[TableRow], at: int, column: Column, shares: Shares) -> _Column:
    from lmk_experiments.statistics import Untested

    held = _Column({}, {})
    for place, row in enumerate(rows):
        value = row.cells[at].value
        if value is None:
            continue  # it says itself what it waits for
        try:
            found = shares(place, at)
            if abs(sum(found.values()) - value) > _FIGURE_TOLERANCE * max(1.0, abs(column.scale) / 100):
                raise Untested("the scores by query are not those that the score was made of")
            held.shares[place] = found
        except Untested as reason:
            held.untested[place] = str(reason)
    return held


def _compare(
    rows: Sequence[TableRow], blocks: Sequence[Sequence[int]], held: _Column, tests: Comparing
) -> dict[int, Comparison]:
    """Every row against its block's baseline, not yet corrected."""
    import numpy as np

    from lmk_experiments.statistics import EXACT_QUERIES, RESAMPLES, intervals, randomization_test

    compared: dict[int, Comparison] = {}
    for block in blocks:
        bases = [place for place in block if rows[place].baseline]
        if len(bases) != 1 or bases[0] not in held.shares:
            if len(bases) == 1 and bases[0] in held.untested:
                held.untested[bases[0]] += " (the baseline)"
            continue
        base = held.shares[bases[0]]
        places = []
        for place in block:
            if place in held.shares and place != bases[0]:
                if held.shares[place].keys() == base.keys():
                    places.append(place)
                else:
                    held.untested[place] = "not the baseline's queries"
        if not places:
            continue
        queries, strata = _ordered(base)
        values = np.array([[held.shares[place][query] - base[query] for query in queries] for place in places])
        bounds = intervals(values, strata).tolist() if tests.intervals else [None] * len(places)
        for place, p, interval, row in zip(places, randomization_test(values), bounds, values, strict=True):
            few = int((row != 0).sum()) <= EXACT_QUERIES
            drawn = 0 if few else RESAMPLES
            compared[place] = Comparison(float(p), len(queries), drawn, interval and tuple(interval))
    return compared


def _intervals(held: _Column) -> dict[int, tuple[float, float]]:
    """An interval for every value; rows with the same queries share their draws."""
    import numpy as np

    from lmk_experiments.statistics import intervals

    alike: dict[frozenset[tuple[str, str]], list[int]] = {}
    for place, shares in held.shares.items():
        alike.setdefault(frozenset(shares), []).append(place)
    found: dict[int, tuple[float, float]] = {}
    for places in alike.values():
        queries, strata = _ordered(held.shares[places[0]])
        values = np.array([[held.shares[place][query] for query in queries] for place in places])
        bounds = intervals(values, strata)
        found.update({place: (float(low), float(high)) for place, (low, high) in zip(places, bounds, strict=True)})
    return found


def _ordered(shares: Contributions) -> tuple[list[tuple[str, str]], list[int]]:
    """The queries, stratum by stratum in an order of their own, and how many each stratum has."""
    queries = sorted(shares)
    sizes: dict[str, int] = {}
    for stratum, _ in queries:
        sizes[stratum] = sizes.get(stratum, 0) + 1
    return queries, list(sizes.values())


def _holm(p_values: list[float]) -> list[float]:
    from lmk_experiments.statistics import holm

    return holm(p_values)


def _told(reasons: dict[str, list[str]], rows: int) -> tuple[str, ...]:
    """The reasons why cells were not tested, with the rows where it is not all of them."""
    return tuple(
        reason if len(named) == rows else f"{reason} ({', '.join(named)})" for reason, named in reasons.items()
    )
