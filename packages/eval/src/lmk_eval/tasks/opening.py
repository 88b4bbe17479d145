"""From a suite's `Task` to the tasks MTEB runs for it."""

from __future__ import annotations

from copy import copy
from typing import Any

import mteb
from mteb.abstasks import AbsTask, AbsTaskRetrieval

from lmk_eval.suites import Task
from lmk_eval.tasks.folder import TaskDataError
from lmk_eval.tasks.groups import per_query_scores
from lmk_eval.tasks.local import LocalRetrieval


def open_task(task: Task) -> list[AbsTask]:
    """The tasks of MTEB that `task` stands for: one, or the parts of an aggregate such as CQADupstackRetrieval.

    No data is loaded yet. A built-in retrieval task also keeps each query's score, as a local one does.

    Raises:
        TaskDataError: if the folder lacks a file, or MTEB has no such task, split or subset.
    """
    if task.folder is not None:
        return [LocalRetrieval(task.name, task.folder, task.split or "test", task.group_by)]
    opened = _built_in(str(task.mteb))
    # MTEB keeps one instance of each part of an aggregate; ours are copies, so that nothing stays on those.
    parts: list[AbsTask] = [copy(part) for part in opened.metadata.tasks] if opened.is_aggregate else [opened]
    for part in parts:
        _narrow(part, task)
        if isinstance(part, AbsTaskRetrieval):
            _keep_per_query(part)
    return parts


def _built_in(name: str) -> Any:
    try:
        return mteb.get_task(name)
    except KeyError as error:
        # MTEB's message ends with the nearest name it has; listing all of its tasks would build each of them.
        hint = str(error.args[0]).partition("not found")[2].strip(" .") or "no name is near"
        raise TaskDataError(f"MTEB has no task {name!r}: {hint}") from error


def _narrow(part: AbsTask, task: Task) -> None:
    """Keep only the split and the subsets that the suite names."""
    name = part.metadata.name
    if task.split is not None:
        _among(task.split, part.eval_splits, f"{name} has no split")
        part.filter_eval_splits([task.split])
    if task.subsets is not None:
        for subset in task.subsets:
            _among(subset, part.hf_subsets, f"{name} has no subset")
        part.filter_languages(None, None, hf_subsets=list(task.subsets))


def _among(value: str, valid: Any, message: str) -> None:
    if value not in valid:
        raise TaskDataError(f"{message} {value!r}; it has {', '.join(sorted(map(str, valid)))}")


def _keep_per_query(task: AbsTaskRetrieval) -> None:
    """Add each query's score to the task's own `task_specific_scores`, on this instance only."""
    own = task.task_specific_scores

    def with_per_query(scores: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**own(scores, *args, **kwargs), **per_query_scores(scores)}

    setattr(task, "task_specific_scores", with_per_query)  # noqa: B010  (a method can't be assigned as an attribute for the type checker)
