"""Hands jobs to SLURM and returns: nothing here waits for a job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from submitit.slurm.slurm import SlurmExecutor

from lmk_slurm.arrays import Array, arrange
from lmk_slurm.jobs import Job
from lmk_slurm.parcel import Parcel, Sent, clean
from lmk_slurm.signals import blocking
from lmk_slurm.site import Site


def submit_jobs(
    jobs: Sequence[Job],
    site: Site,
    folder: Path,
    *,
    label: str,
    active: Mapping[str, str] | None = None,
    last: Job | None = None,
    last_site: Site | None = None,
    on_sent: Callable[[Job, Sent], None] | None = None,
) -> dict[str, Sent]:
    """Submits every job that is neither done nor active, and returns when the last sbatch has answered.

    Args:
        folder: for this submission alone, on a disk that every node sees: scripts, pickles and logs. Never one with
            a job's id in its name: submitit makes that folder after the job may have started.
        label: the first part of the jobs' name in the queue.
        active: name to id of the jobs that the scheduler has from earlier.
        last: a job to run when all others, the active ones too, have ended, however they did. It is submitted only
            when something else is.
        last_site: where that one goes, when not where the others do.
        on_sent: called with each job that was taken, before the next array is sent.

    Raises:
        JobError: before anything is sent, when a job cannot be run as described.
        SchedulerError: when SLURM refuses or does not answer; what was sent before stays, and was told to `on_sent`.
    """
    known = active or {}
    arrays = arrange(jobs, site, known)
    if last is not None and arrays:
        before = {identity.partition("_")[0]: None for identity in known.values()}
        arrays.append(Array(last.resources, last.environment, after_any=(*before, *arrays), tasks={0: last}))
    folder.mkdir(parents=True, exist_ok=True)
    ids: dict[Array, str] = {}
    sent: dict[str, Sent] = {}
    for array in arrays:
        chosen = (last_site or site) if array.after_any else site
        parcel = Parcel(array, folder, label)
        ids[array] = parcel.send(script(array, chosen, folder, parcel.name, array.dependency(ids)))
        for index, job in array.tasks.items():
            one = parcel.sent(index, ids[array])
            sent[job.name] = one
            if on_sent is not None:
                on_sent(job, one)
        parcel.close(ids[array])
    return sent


def script(array: Array, site: Site, folder: Path, name: str, dependency: str | None) -> str:
    """The exact text that sbatch is given for `array`."""
    # A command of the site's own may lead into a container with another `env`.
    python = blocking(shlex.quote(sys.executable)) if site.python is None else site.python
    executor = _TextExecutor(folder, python=python)
    parameters = site.parameters(array.resources)
    options = parameters["additional_parameters"]
    throttle = "" if site.at_once is None else f"%{site.at_once}"
    options["array"] = array.indices + throttle
    options["requeue"] = True
    if dependency is not None:
        options["dependency"] = dependency
        if not dependency.startswith("afterany"):
            options["kill-on-invalid-dep"] = "yes"
    parameters |= {"job_name": name, "setup": site.setup_lines(array.environment), "map_count": max(array.tasks) + 1}
    executor.parameters.update(parameters)
    return executor._make_submission_file_text(executor._submitit_command_str, "")


def scripts(
    jobs: Sequence[Job],
    site: Site,
    folder: Path,
    *,
    label: str,
    last: Job | None = None,
    last_site: Site | None = None,
) -> list[str]:
    """What `submit_jobs` would send; ids that only the scheduler can give read `<array N>`."""
    arrays = arrange(jobs, site, {})
    if last is not None and arrays:
        arrays.append(Array(last.resources, last.environment, after_any=tuple(arrays), tasks={0: last}))
    ids = {array: f"<array {position}>" for position, array in enumerate(arrays, 1)}
    sites = [(last_site or site) if array.after_any else site for array in arrays]
    return [
        script(array, chosen, folder, clean(label), array.dependency(ids))
        for array, chosen in zip(arrays, sites, strict=True)
    ]


class _TextExecutor(SlurmExecutor):
    """submitit's executor for its script alone, which can be written where there is no SLURM."""

    @classmethod
    def affinity(cls) -> int:
        return 1
