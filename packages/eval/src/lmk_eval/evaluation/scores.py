"""From MTEB's scores of the parts of a task to the numbers that are reported for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from lmk_eval.evaluation.errors import EvaluationError
from lmk_eval.tasks.groups import GROUPED_METRICS, PER_QUERY, group_name, sorted_values

RETRIEVAL_METRICS = ("ndcg_at_10", "precision_at_1", "recall_at_10", "recall_at_100", "mrr_at_10", "main_score")
"""Every retrieval task gives all of these."""
OTHER_METRICS = ("f1", "accuracy", "main_score")
"""A task of another type gives those of these that it has; `main_score` always."""

# MTEB's result files hold 6 digits: a result that was just computed and one read back are the same numbers.
_DIGITS = 6


@dataclass(frozen=True)
class Part:
    """MTEB's scores of one split of one subset of one of its tasks."""

    task: str
    split: str
    subset: str
    retrieval: bool
    scores: Mapping[str, Any]


def report(name: str, parts: Sequence[Part], group_by: str | None, metric: str | None = None) -> dict[str, float]:
    """The metrics of a task: means over its parts, then the same by group.

    Args:
        name: the task's name in the suite, for messages.
        parts: one for each split and subset (and, of an aggregate, each task) that was scored; at least one.
        group_by: as in the suite's task.
        metric: the one that is the task's `main_score`; MTEB's own choice unless said.

    Raises:
        EvaluationError: if a metric is missing or not a finite number; names task and metric.
    """
    if metric is not None:
        parts = [_mainly(name, part, metric) for part in parts]
    metrics = _metrics(name, parts)
    values = {metric: _mean(name, metric, parts) for metric in metrics}
    if group_by is None:
        return values
    grouped = [metric for metric in parts[0].scores if metric.endswith("]") and f"[{group_by}=" in metric]
    if grouped:
        return values | {metric: _mean(name, metric, parts) for metric in grouped}
    return values | _by_part(name, parts, group_by, [metric for metric in metrics if _has_groups(metric)])


def per_query(parts: Sequence[Part]) -> dict[str, dict[str, float]]:
    """Metric to query id to value, or an empty dict for a task without queries.

    When there is more than one part, what differs between them stands before the id: `split/id`, `subset/id`, ...
    """
    fields: list[Callable[[Part], str]] = [lambda part: part.task, lambda part: part.subset, lambda part: part.split]
    differing = [field for field in fields if len({field(part) for part in parts}) > 1]
    values: dict[str, dict[str, float]] = {}
    for part in parts:
        before = [field(part) for field in differing]
        for metric, scores in _by_query(part).items():
            named = {"/".join([*before, query]): round(score, _DIGITS) for query, score in scores.items()}
            values.setdefault(metric, {}).update(named)
    return values


def _by_query(part: Part) -> Mapping[str, Mapping[str, float]]:
    """A part's own; result files of before held NDCG@10 alone, by the query's id."""
    held = part.scores.get(PER_QUERY, {})
    return held if all(isinstance(value, Mapping) for value in held.values()) else {"ndcg_at_10": held}


def _mainly(name: str, part: Part, metric: str) -> Part:
    """The part with ``metric`` as its main score."""
    if metric not in part.scores:
        raise EvaluationError(f"task {name!r}: MTEB gave no {metric}, which is its metric here", name)
    scores = {key: value for key, value in part.scores.items() if key.partition("[")[0] != "main_score"}
    return replace(part, scores={**scores, "main_score": part.scores[metric]})


def _has_groups(metric: str) -> bool:
    return metric in GROUPED_METRICS or metric in OTHER_METRICS


def _metrics(name: str, parts: Sequence[Part]) -> list[str]:
    retrieval = all(part.retrieval for part in parts)
    metrics = RETRIEVAL_METRICS if retrieval else OTHER_METRICS
    found = [metric for metric in metrics if all(metric in part.scores for part in parts)]
    missing = [metric for metric in metrics if metric not in found]
    if "main_score" in missing or (retrieval and missing):
        raise EvaluationError(f"task {name!r}: MTEB gave no {', '.join(missing)}", name)
    return found


def _by_part(name: str, parts: Sequence[Part], group_by: str, metrics: Sequence[str]) -> dict[str, float]:
    values = sorted_values({getattr(part, group_by) for part in parts})
    return {
        group_name(metric, group_by, value): _mean(
            name, metric, [part for part in parts if getattr(part, group_by) == value]
        )
        for metric in metrics
        for value in values
    }


def _mean(name: str, metric: str, parts: Sequence[Part]) -> float:
    values: list[float] = []
    for part in parts:
        value = part.scores.get(metric)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise EvaluationError(
                f"task {name!r}: {metric} is {value!r} (split {part.split}, subset {part.subset}), "
                "must be a finite number",
                name,
            )
        values.append(float(value))
    return round(fmean(values), _DIGITS)
