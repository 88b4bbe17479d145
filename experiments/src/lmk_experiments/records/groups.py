"""Metrics of a group of a task's queries, such as ``ndcg_at_10[quarter=1]``."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"([^\[\]]+)\[([^\[\]=]+)=([^\[\]]+)\]")


class Group(NamedTuple):
    """What the name of a group's metric says."""

    metric: str
    key: str
    value: str


def parse_group(metric: str) -> Group | None:
    """The parts of a name that ``lmk_eval.tasks.groups.group_name`` made; ``None`` for any other metric.

    >>> parse_group("ndcg_at_10[quarter=1]")
    Group(metric='ndcg_at_10', key='quarter', value='1')
    >>> parse_group("ndcg_at_10")
    """
    found = _NAME.fullmatch(metric)
    return None if found is None else Group(*found.groups())
