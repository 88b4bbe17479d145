"""Checks of a set of jobs before any of them starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from lmk_slurm.jobs import Job

# Folders with these tags would be rewritten by submitit, which puts ids in their place.
_FOLDER_TAGS = ("%j", "%t", "%A", "%a")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LISTED = 20


class JobError(ValueError):
    """A job that cannot be run as described. `job` is its name."""

    def __init__(self, job: str, problem: str) -> None:
        super().__init__(f"job {job!r}: {problem}")
        self.job = job


def check_jobs(jobs: Sequence[Job]) -> dict[str, Job]:
    """The jobs by name, in the order given.

    Raises:
        JobError: a job has no name, a name twice, a function that is not `package.module:attribute`, an argument,
            environment, log folder or `done` of the wrong form, an unknown name in `after`, or they form a cycle.
    """
    by_name: dict[str, Job] = {}
    for job in jobs:
        _check_one(job)
        if job.name in by_name:
            raise JobError(job.name, "the name is used twice; every job needs a name of its own")
        by_name[job.name] = job
    for job in jobs:
        unknown = [name for name in job.after if name not in by_name]
        if unknown:
            raise JobError(job.name, f"`after` names {unknown[0]!r}, which is no job; the jobs are {_list(by_name)}")
    in_order(by_name)
    return by_name


def in_order(jobs: Mapping[str, Job]) -> list[str]:
    """The names so that each comes after all that it waits for.

    Raises:
        JobError: there is no such order; the message names the jobs that wait for each other.
    """
    try:
        return list(TopologicalSorter({name: job.after for name, job in jobs.items()}).static_order())
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        arrows = " -> ".join(cycle)
        raise JobError(cycle[0], f"the jobs wait for each other: {arrows}; `after` must not form a cycle") from None


def _check_one(job: Job) -> None:
    if not isinstance(job.name, str) or not job.name:
        raise JobError(str(job.name), f"the name must be a non-empty str, not {job.name!r}")
    if not isinstance(job.function, str) or not _FUNCTION.fullmatch(job.function):
        raise JobError(job.name, f"function is {job.function!r}; valid is 'package.module:attribute'")
    if job.function.partition(":")[0] == "__main__":
        raise JobError(job.name, f"function is {job.function!r}; a fresh process cannot import __main__")
    if not isinstance(job.argument, str):
        raise JobError(job.name, f"argument must be a str, not {type(job.argument).__name__} ({job.argument!r})")
    if isinstance(job.after, str):
        raise JobError(job.name, f"after must be a tuple of names, not the str {job.after!r}")
    if not job.done:
        raise JobError(job.name, "done is empty; name at least one path that the job writes when its work is done")
    tags = [tag for tag in _FOLDER_TAGS if tag in str(job.logs)]
    if tags:
        raise JobError(job.name, f"logs is {str(job.logs)!r}; a folder name must not contain {tags[0]}")
    for key, value in job.environment.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key or "=" in key:
            raise JobError(job.name, f"environment has {key!r}: {value!r}; names and values must be str")


def _list(names: Mapping[str, Job]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown
