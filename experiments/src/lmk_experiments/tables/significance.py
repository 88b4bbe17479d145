"""Which of a table's differences to the baseline are more than noise, and how sure each value is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lmk_experiments.tables.kept import Kept
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
class _Result:
    """A column's comparisons by row, not yet corrected; intervals of values; and why rows were not tested."""

    compared: dict[int, Comparison]
    bounds: dict[int, tuple[float, float]]
    untested: dict[int, str]

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        compared = [[row, one.p, one.queries, one.resamples, one.interval] for row, one in self.compared.items()]
        return {"compared": compared, "bounds": list(self.bounds.items()), "untested": list(self.untested.items())}

    @staticmethod
    def of(value: Any) -> _Result | None:
        """What was kept; ``None`` where it is nothing of that kind."""
        try:
            return _Result(
                {
                    row: Comparison(p, queries, drawn, pair and tuple(pair))
                    for row, p, queries, drawn, pair in value["compared"]
                },
                {row: (low, high) for row, (low, high) in value["bounds"]},
                dict(value["untested"]),
            )
        except (KeyError, TypeError, ValueError):
            return None


def _made_of(spec: TableSpec, rows: Sequence[TableRow], at: int) -> list[object]:
    """Everything but the shares that a column's result depends on."""
    column = spec.columns[at]
    averaged = [spec.columns[spec.averaged(name)] for name in column.mean_of or ()]
    said = [one.model_dump(mode="json") for one in (column, *averaged)]
    return [said, [[row.name, row.baseline, row.cells[at].value] for row in rows]]


@dataclass
class _Column:
    """A column's shares by row; rows without them say why."""

    shares: dict[int, Contributions]
    untested: dict[int, str]


def tested(
    spec: TableSpec,
    rows: Sequence[TableRow],
    blocks: Sequence[Sequence[int]],
    shares: Shares,
    tests: Comparing,
    kept: Kept,
    stamps: Callable[[int], object],
) -> tuple[list[TableRow], Significance]:
    """The rows with their comparisons to the baseline, and what is said of the tests under the table.

    Every column is a family of its own: Holm's correction counts the comparisons of a column, in all blocks.

    Args:
        blocks: places of the rows that are compared with each other, each with one baseline or none.
        shares: raises ``Untested`` where a cell has no scores by query.
        kept: results of before; new ones are added to it.
        stamps: of a column, what says whether its shares are still those of before.
    """
    from lmk_experiments.statistics import RESAMPLES, holm

    found: dict[tuple[int, int], Comparison] = {}
    bounds: dict[tuple[int, int], tuple[float, float]] = {}
    reasons: dict[str, list[str]] = {}
    for at, column in enumerate(spec.columns):
        made_of = [RESAMPLES, tests.intervals, blocks, *_made_of(spec, rows, at), stamps(at)]
        result = _Result.of(kept.get(made_of))
        if result is None:
            held = _column(rows, at, column, shares)
            compared = _compare(rows, blocks, held, tests)
            result = _Result(compared, _intervals(held) if tests.intervals else {}, held.untested)
            kept.put(made_of, result.to_json())
        adjusted = holm([one.p for one in result.compared.values()])
        for (row, one), corrected in zip(result.compared.items(), adjusted, strict=True):
            found[row, at] = replace(
                one, adjusted=corrected, significant=corrected < tests.level, comparisons=len(adjusted)
            )
        bounds.update({(row, at): interval for row, interval in result.bounds.items()})
        for row, reason in result.untested.items():
            reasons.setdefault(f"{column.name}: {reason}", []).append(rows[row].label)
    kept.save()
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


def _told(reasons: dict[str, list[str]], rows: int) -> tuple[str, ...]:
    """The reasons why cells were not tested, with the rows where it is not all of them."""
    return tuple(
        reason if len(named) == rows else f"{reason} ({', '.join(named)})" for reason, named in reasons.items()
    )
