"""Two cells or rows side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lmk_experiments.configs import explain
from lmk_experiments.mirror.names import flatten
from lmk_experiments.upkeep.find import Side


@dataclass(frozen=True)
class Pair:
    """One key of the configuration; ``None`` where a side does not have it."""

    key: str
    a: str | None
    b: str | None

    @property
    def differs(self) -> bool:
        """Whether the two sides are not the same here."""
        return self.a != self.b


@dataclass(frozen=True)
class ScorePair:
    """One score; a text is the state of a side that has none."""

    task: str
    metric: str
    a: float | str
    b: float | str

    @property
    def difference(self) -> float | None:
        """B minus A, where both have a score."""
        return None if isinstance(self.a, str) or isinstance(self.b, str) else self.b - self.a


@dataclass(frozen=True)
class Comparison:
    """Two sides: their configurations key by key, and their scores task by task."""

    a: Side
    b: Side
    config: tuple[Pair, ...]
    scores: tuple[ScorePair, ...]


def compare(a: Side, b: Side, metric: str | None = "main_score") -> Comparison:
    """Put two sides beside each other.

    Args:
        metric: which score of each task; ``None`` for all. Of trainings, all last metrics are shown anyway.

    Raises:
        ValueError: the sides are not of one kind, or no task has the metric.
    """
    if a.kind != b.kind:
        raise ValueError(f"{a.name} is a {a.kind} and {b.name} is a {b.kind}: two of one kind can be compared")
    left, right = flatten(a.config), flatten(b.config)
    config = tuple(Pair(key, left.get(key), right.get(key)) for key in _in_order(left, right))
    return Comparison(a, b, config, _scores(a, b, None if a.kind == "training" else metric))


def _in_order(left: Iterable[str], right: Iterable[str]) -> list[str]:
    """All keys in the order of the left side; one that only the right side has follows the one before it there."""
    keys, at = list(left), 0
    for key in right:
        if key not in keys:
            keys.insert(at, key)
        at = keys.index(key) + 1
    return keys


def _scores(a: Side, b: Side, metric: str | None) -> tuple[ScorePair, ...]:
    held = [scores for side in (a, b) for scores in side.scores.values()]
    metrics = sorted({name for scores in held for name in scores})
    if metric is not None and metrics and metric not in metrics:
        raise ValueError(f"no task has metric {metric!r}; {explain(metric, metrics)}")
    pairs = []
    for task in dict.fromkeys([*a.scores, *b.scores]):
        both = [*a.scores.get(task, {}), *b.scores.get(task, {})]
        for name in dict.fromkeys(both):
            if metric in (None, name):
                pairs.append(ScorePair(task, name, _score(a, task, name), _score(b, task, name)))
    return tuple(pairs)


def _score(side: Side, task: str, metric: str) -> float | str:
    scores = side.scores.get(task)
    if scores is None:
        return side.states.get(task.partition("/")[0], "not evaluated")
    return scores.get(metric, "no score")
