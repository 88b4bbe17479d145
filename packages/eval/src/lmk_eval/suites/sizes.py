"""How much text the tasks of the shipped suites hold, for estimates of cost: MTEB's own statistics (``measure.py``)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lmk_eval.suites.task import Task

SIZES_FILE = Path(__file__).with_name("sizes.json")
WHOLE = "*"
"""The subset's key where a task has no subsets, or their sizes are not told apart."""


@dataclass(frozen=True)
class TaskSize:
    """What has to be encoded for one task.

    Attributes:
        documents: texts of the corpora (of a classification: its test texts).
        document_characters: all of their characters.
        queries: queries, 0 for a classification.
        query_characters: all of their characters.
    """

    documents: int
    document_characters: int
    queries: int
    query_characters: int


def task_sizes(task: Task) -> list[TaskSize] | None:
    """The sizes of a task's parts, one for each split and subset; ``None`` where they are not known."""
    splits = _sizes().get(str(task.mteb))
    if splits is None:
        return None
    wanted = [task.split] if task.split else list(splits)
    found = []
    for split in wanted:
        subsets = splits.get(split)
        if subsets is None:
            return None
        names = [name for name in subsets if task.subsets is None or name in (*task.subsets, WHOLE)]
        found += [TaskSize(*subsets[name]) for name in names]
    return found


@cache
def _sizes() -> dict[str, dict[str, dict[str, list[int]]]]:
    return json.loads(SIZES_FILE.read_text(encoding="utf-8"))
