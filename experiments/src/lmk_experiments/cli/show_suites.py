"""The shipped suites as text: ``lmk evaluate --list``. Plain data, so it imports neither torch nor mteb."""

from __future__ import annotations

import textwrap

from lmk_eval.suites import Suite, Task, shipped_suite, shipped_suites, task_sizes
from lmk_experiments.cli.columns import columns

_WIDTH = 118


def suites_text() -> str:
    """Every suite with its tasks: splits, languages, metric, how large it is, and where the paper says so."""
    parts = [_suite_text(shipped_suite(name)) for name in shipped_suites()]
    rule = "A suite's figure is the mean of its tasks' metrics, and a task's the mean over its splits and languages."
    return "\n\n".join([*parts, rule])


def _suite_text(suite: Suite) -> str:
    lines = [f"{suite.name}: {suite.title}", *_said("source", suite.source), *_said("assumed", suite.assumed)]
    rows = [["  task", "splits", "languages", "metric", "documents", "queries"]]
    return "\n".join([*lines, columns(rows + [_task_row(task) for task in suite.tasks])])


def _said(key: str, text: str | None) -> list[str]:
    if text is None:
        return []
    return textwrap.wrap(f"{key}: {text}", width=_WIDTH, initial_indent="  ", subsequent_indent="      ")


def _task_row(task: Task) -> list[str]:
    sizes = task_sizes(task) or []
    languages = " ".join(task.subsets or ())
    shown = languages if len(languages) <= 24 else f"{len(task.subsets or ())} of them"
    return [
        f"  {task.mteb}",
        task.split or f"all {len(sizes)}",
        shown or "-",
        task.metric or "-",
        f"{sum(size.documents for size in sizes):,}",
        f"{sum(size.queries for size in sizes):,}",
    ]
