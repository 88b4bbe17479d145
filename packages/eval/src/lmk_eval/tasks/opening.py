"""From a suite's `Task` to the tasks MTEB runs for it."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import mteb
from mteb._set_seed import _set_seed
from mteb.abstasks import AbsTask, AbsTaskRetrieval

from lmk_eval.haystacks.task import LocalHaystack
from lmk_eval.labels.task import LocalMultilabel
from lmk_eval.suites import Task
from lmk_eval.tasks.folder import TaskDataError
from lmk_eval.tasks.groups import per_query_scores
from lmk_eval.tasks.local import LocalRetrieval
from lmk_eval.tasks.redirect import find_mirror, redirect


class DataMissing(TaskDataError):
    """A task's data can't be had on this machine. The message says how it gets there."""


def open_task(task: Task, mirrors: Path | None = None) -> list[AbsTask]:
    """The tasks of MTEB that `task` stands for: one, or the parts of an aggregate such as CQADupstackRetrieval.

    No data is loaded yet. A built-in retrieval task also keeps each query's scores, as a local one does.

    Args:
        task: as a suite has it.
        mirrors: a folder with the data of tasks of MTEB, see `redirect`; what isn't there comes from the hub.

    Raises:
        TaskDataError: if own files are missing, or MTEB has no such task, split or subset.
    """
    parts = [_local(task)] if task.kind != "mteb" else _of_mteb(task, mirrors)
    for part in parts:
        _always_the_same(part)
    return parts


def load_task(task: AbsTask) -> None:
    """Load a task's data.

    Raises:
        DataMissing: a data set of the hub that is not in this machine's cache and can't be fetched from here.
    """
    try:
        task.load_data()
    except TaskDataError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        known = missing_data(task, error)
        if known is None:
            raise
        raise known from error


def missing_data(task: AbsTask, error: Exception) -> DataMissing | None:
    """What an error of loading says for people, where it is that the data isn't to be had; else None."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    name, place = task.metadata.name, task.metadata.dataset["path"]
    if "no longer supported" in str(error):
        return DataMissing(
            f"{place} is a program of its own that `datasets` no longer runs, so {name} needs files: put a copy of its "
            f"data into the folder of mirrors, as {name}/ in BEIR layout or as the hub's own files"
        )
    if kinds & {"ConnectionError", "DatasetNotFoundError", "LocalEntryNotFoundError", "HfHubHTTPError"}:
        return DataMissing(
            f"the data of {name} ({place} on the hub) is not on this machine: fetch it where there is a network "
            f"(`lmk fetch GRID`), or put it into the folder of mirrors as {name}/"
        )
    return None


def _local(task: Task) -> AbsTask:
    if task.folder is not None:
        return LocalRetrieval(task.name, task.folder, task.split or "test", task.group_by)
    if task.labels is not None:
        return LocalMultilabel(task.name, task.labels, task.split or "test")
    kind, path = ("passkey", task.passkey) if task.passkey is not None else ("needle", task.needle)
    return LocalHaystack(task.name, kind, str(path), task.lengths, task.characters_a_token, task.group_by)


def _of_mteb(task: Task, mirrors: Path | None) -> list[AbsTask]:
    opened = _built_in(str(task.mteb))
    # MTEB keeps one instance of each part of an aggregate; ours are copies, so that nothing stays on those.
    parts: list[AbsTask] = [copy(part) for part in opened.metadata.tasks] if opened.is_aggregate else [opened]
    for part in parts:
        _narrow(part, task)
        if (place := find_mirror(part, mirrors)) is not None:
            redirect(part, place)
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
    """Add each query's scores to the task's own `task_specific_scores`, on this instance only."""
    own = task.task_specific_scores

    def with_per_query(scores: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**own(scores, *args, **kwargs), **per_query_scores(scores)}

    setattr(task, "task_specific_scores", with_per_query)  # noqa: B010  (a method can't be assigned as an attribute for the type checker)


def _always_the_same(task: AbsTask) -> None:
    """Draw the same samples for every split and subset, whatever this instance has scored before.

    MTEB seeds a task when it is made; what a probe learns from then depends on how many languages came before it, so
    that an evaluation that was stopped would go on with other samples.
    """
    own = task.evaluate

    def seeded(*args: Any, **kwargs: Any) -> Any:
        task.rng_state, task.np_rng = _set_seed(task.seed)
        return own(*args, **kwargs)

    setattr(task, "evaluate", seeded)  # noqa: B010  (as above)
