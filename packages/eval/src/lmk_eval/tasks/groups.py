"""Scores by group of queries, and each query's own score, from the numbers MTEB computed for each query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from lmk_eval.tasks.folder import Query, TaskDataError

PER_QUERY = "per_query"
"""The key under which a task's scores, and so MTEB's result file, hold {metric: {query id: value}}."""

# Our names of the metrics given by group and by query, and how pytrec_eval calls them for one query.
GROUPED_METRICS = {"ndcg_at_10": "ndcg_cut_10", "precision_at_1": "P_1", "recall_at_10": "recall_10"}


def per_query_scores(scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, dict[str, float]]]:
    """What is added to a task's scores so that its result file keeps each query's own.

    Args:
        scores: query id to pytrec_eval metric to value, as MTEB hands them to `task_specific_scores`.
    """
    return {
        PER_QUERY: {
            ours: {query: float(values[theirs]) for query, values in scores.items()}
            for ours, theirs in GROUPED_METRICS.items()
        }
    }


def group_scores(scores: Mapping[str, Mapping[str, float]], groups: Mapping[str, str], key: str) -> dict[str, float]:
    """Means over the queries of each group, named `metric[key=value]`, in the order of the values.

    Args:
        scores: query id to pytrec_eval metric to value.
        groups: query id to the value of its group; queries that are not in it belong to no group.
        key: the metadata key the groups come from.
    """
    members: dict[str, list[str]] = {}
    for query in scores:
        if query in groups:
            members.setdefault(groups[query], []).append(query)
    return {
        group_name(metric, key, value): fmean(scores[query][theirs] for query in members[value])
        for metric, theirs in GROUPED_METRICS.items()
        for value in sorted_values(members)
    }


def group_name(metric: str, key: str, value: str) -> str:
    """The name of a metric of one group, such as `ndcg_at_10[quarter=1]`."""
    return f"{metric}[{key}={value}]"


def sorted_values(values: Iterable[str]) -> list[str]:
    """Group values in reading order: numbers by size, then the rest by text."""

    def order(value: str) -> tuple[int, float, str]:
        try:
            return 0, float(value), value
        except ValueError:
            return 1, 0.0, value

    return sorted(values, key=order)


def query_groups(queries: Mapping[str, Query], key: str, where: str) -> dict[str, str]:
    """Query id to the value of its metadata key, as text. Queries without the key (or with null) are left out.

    Args:
        queries: those of the split.
        key: the metadata key.
        where: the file of the queries, for messages.

    Raises:
        TaskDataError: if no query has the key, or a value is a list or an object.
    """
    groups = {}
    for query_id, query in queries.items():
        value = query.metadata.get(key)
        if isinstance(value, dict | list):
            raise TaskDataError(
                f"{where}:{query.line}: metadata key {key!r} is {json.dumps(value)[:40]}; "
                "group_by needs a text, a number or a truth value"
            )
        if value is not None:
            groups[query_id] = _value(value)
    if not groups:
        found = sorted({name for query in queries.values() for name in query.metadata})
        raise TaskDataError(
            f"{where}: no scored query has the metadata key {key!r} of group_by; "
            f"keys found: {', '.join(found) or 'none'}"
        )
    return groups


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
