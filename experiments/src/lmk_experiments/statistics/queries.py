"""Each query's share of a score, from the per-query scores that an evaluation keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from lmk_experiments.builders import is_builtin_reference, locate
from lmk_experiments.records import Cell
from lmk_experiments.records.groups import parse_group

Query = tuple[str, str]
"""What a query is drawn within (a task's data, and the split or subset), and its id."""
Contributions = dict[Query, float]
"""Each query's share of a score: their sum is the score."""

TOLERANCE = 1e-5
"""MTEB rounds scores to five digits: queries whose mean is further from the score are not those it was made of."""
_HELD = 200_000
"""Scores by query that are kept for the next column, which often reads the same files."""
_METRICS = ("ndcg_at_10", "precision_at_1", "recall_at_10")
_DEPTHS = (3, 2, 1, 0)
"""Parts of an id before the query's own: task, subset and split stand there where a task has several of them.

The deepest is tried first: where all scores are equal every way of reading the ids gives the mean, and rows must agree.
"""


class Untested(ValueError):
    """There are no scores by query to test with; the message says why, in a few words."""


@dataclass
class PerQuery:
    """Reads the per-query scores of evaluations under a root; a file that is asked for again soon, once."""

    root: Path
    _values: dict[tuple[str, str, str], dict[str, float] | None] = field(default_factory=dict)
    _groups: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def contributions(self, cell: Cell, task: str, metric: str, scores: Mapping[str, float]) -> Contributions:
        """The shares of one task's score, weighted as it is: the mean over the task's parts of the mean over queries.

        Args:
            metric: as the table names it: ``main_score``, ``ndcg_at_10``, ``ndcg_at_10[quarter=1]``.
            scores: the task's scores as recorded.

        Raises:
            Untested: nothing is kept by query, or what is kept is not what the score was made of.
        """
        config = self._task(cell, task)
        group = parse_group(metric)
        plain = group.metric if group else metric
        names = [plain] if plain != "main_score" else _same_as_main(scores)
        kept = False
        for name in names:
            values = self._held(cell, task, name)
            if values is None:
                continue
            kept = True
            for shares in self._weighted(values, config, (group.key, group.value) if group else None):
                if abs(sum(shares.values()) - scores[metric]) <= TOLERANCE:
                    return shares
        if kept:
            raise Untested("the scores by query are not those that the score was made of")
        raise Untested(f"{metric} is not kept by query")

    def _task(self, cell: Cell, task: str) -> Mapping[str, Any]:
        try:
            return next(one for one in cell.config["suite"]["tasks"] if one["name"] == task)
        except (StopIteration, KeyError, TypeError, ValueError):
            raise Untested(f"the cell's record does not know task {task}") from None

    def _held(self, cell: Cell, task: str, metric: str) -> dict[str, float] | None:
        key = (cell.id, task, metric)
        if key not in self._values:
            if sum(len(values or ()) for values in self._values.values()) > _HELD:
                self._values.clear()
            self._values[key] = _read(cell.folder, task, metric)
        return self._values[key]

    def _weighted(
        self, values: Mapping[str, float], config: Mapping[str, Any], group: tuple[str, str] | None
    ) -> Iterator[Contributions]:
        """The ways in which the ids can be read, as shares; the deepest first."""
        data = str(next((config[key] for key in ("mteb", "folder", "passkey", "needle") if config.get(key)), ""))
        members = None
        if group is not None and group[0] not in ("split", "subset"):
            members = self._members(config, group[0])
        deepest = max((query.count("/") for query in values), default=0)
        for depth in _DEPTHS:
            if depth > deepest:
                continue
            parts: dict[str, dict[str, float]] = {}
            for query, value in values.items():
                *before, own = query.split("/", depth)
                wanted = group is None or (members.get(own) == group[1] if members is not None else group[1] in before)
                if len(before) == depth and wanted:
                    parts.setdefault("/".join(before), {})[own] = value
            yield {
                (f"{data}/{part}", query): value / (len(parts) * len(held))
                for part, held in parts.items()
                for query, value in held.items()
            }

    def _members(self, config: Mapping[str, Any], key: str) -> dict[str, str]:
        """Query id to its group, from the queries' own file."""
        folder = config.get("folder")
        if not folder:
            raise Untested(f"which query is of which {key} is not kept")
        if (folder, key) not in self._groups:
            path = (locate(folder, self.root) if is_builtin_reference(folder) else Path(folder)) / "queries.jsonl"
            self._groups[folder, key] = _groups(path, key)
        return self._groups[folder, key]


def _same_as_main(scores: Mapping[str, float]) -> list[str]:
    """The metrics kept by query that the main score may be, those with its value first."""
    main = scores["main_score"]
    return sorted(_METRICS, key=lambda name: abs(scores.get(name, float("inf")) - main) > TOLERANCE)


def _read(folder: Path, task: str, metric: str) -> dict[str, float] | None:
    from lmk_eval import read_per_query

    try:
        values = read_per_query(folder, task, metric)
    except KeyError:
        return None
    except FileNotFoundError:
        raise Untested("no scores by query are kept") from None
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise Untested(f"the scores by query cannot be read ({type(error).__name__})") from None
    if not isinstance(values, dict) or any(not isinstance(value, int | float) for value in values.values()):
        raise Untested("the scores by query are of another shape")
    return values


def _groups(path: Path, key: str) -> dict[str, str]:
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        held = {str(line["_id"]): (line.get("metadata") or {}).get(key) for line in lines}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise Untested(f"which query is of which {key}: {path.name} of the task cannot be read") from None
    return {query: value if isinstance(value, str) else json.dumps(value) for query, value in held.items()}


def mean_of(parts: list[Contributions]) -> Contributions:
    """The shares of the mean of several figures; a query that is in several of them is one query, with all its shares.

    >>> mean_of([{("a", "1"): 0.5}, {("a", "1"): 0.25, ("b", "1"): 1.0}])
    {('a', '1'): 0.375, ('b', '1'): 0.5}
    """
    found: Contributions = {}
    for part in parts:
        for query, value in part.items():
            found[query] = found.get(query, 0.0) + value / len(parts)
    return found


def mean_over_seeds(seeds: list[Contributions]) -> Contributions:
    """Each query's mean over the trainings of a row, at least one.

    Raises:
        Untested: the trainings were not asked the same queries.
    """
    if any(one.keys() != seeds[0].keys() for one in seeds):
        raise Untested("its seeds were not asked the same queries")
    if len(seeds) == 1:
        return seeds[0]
    return {query: fmean(one[query] for one in seeds) for query in seeds[0]}
