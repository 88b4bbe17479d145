"""Hands jobs to SLURM and returns: nothing here waits for a job."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submitit.core.utils import DelayedSubmission
from submitit.slurm.slurm import SlurmExecutor

from lmk_slurm.arrays import Array, arrange
from lmk_slurm.child import call
from lmk_slurm.jobs import Job
from lmk_slurm.scheduler import SchedulerError, Ticket, cancel, find, run
from lmk_slurm.site import Site

SENDING, SENT, ABANDONED = "sending", "sent", "abandoned"
_NAME = re.compile(r"[^A-Za-z0-9._+-]")


@dataclass(frozen=True)
class Sent:
    """One job that the scheduler has taken."""

    ticket: Ticket
    log: Path
    """what the job prints; its file appears when the job starts"""


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
        parcel = _Parcel(array, (last_site or site) if array.after_any else site, folder, label)
        ids[array] = parcel.send(array.dependency(ids))
        for index, job in array.tasks.items():
            one = Sent(Ticket(f"{ids[array]}_{index}", parcel.name), folder / f"{ids[array]}_{index}_0_log.out")
            sent[job.name] = one
            if on_sent is not None:
                on_sent(job, one)
        parcel.note(SENT, ids[array])
    return sent


def script(array: Array, site: Site, folder: Path, name: str, dependency: str | None) -> str:
    """The exact text that sbatch is given for `array`."""
    executor = _TextExecutor(folder, max_num_timeout=site.max_timeouts, python=site.python)
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
        script(array, chosen, folder, _clean(label), array.dependency(ids))
        for array, chosen in zip(arrays, sites, strict=True)
    ]


def abandon(folders: Sequence[Path]) -> list[str]:
    """Stops what a submitter that was killed between asking and noting has left in the queue.

    Args:
        folders: folders of earlier submissions.

    Returns:
        The ids of the arrays that were stopped.
    """
    notes = [path for folder in folders for path in sorted(folder.glob("*.array.json"))]
    open_notes = [(path, note) for path in notes if (note := _read(path)).get("state") == SENDING]
    if not open_notes:
        return []
    found = find([note["name"] for _, note in open_notes])
    ids = [found[note["name"]] for _, note in open_notes if note["name"] in found]
    cancel(ids)
    for path, note in open_notes:
        path.write_text(json.dumps({**note, "state": ABANDONED}))
    return ids


class _Parcel:
    """One array on its way. A note that stays at `sending` tells a later submitter what was interrupted."""

    def __init__(self, array: Array, site: Site, folder: Path, label: str) -> None:
        self.token = secrets.token_hex(4)
        self.array, self.site, self.folder = array, site, folder
        self.name = f"{_clean(label)}-{self.token}"

    def send(self, dependency: str | None) -> str:
        """Sends it; the id of the array."""
        minutes = self.site.parameters(self.array.resources)["time"] or 0
        pickles = {index: self.folder / f"{self.token}_{index}.pkl" for index in self.array.tasks}
        for index, path in pickles.items():
            job = self.array.tasks[index]
            delayed = DelayedSubmission(call, job.function, job.argument)
            delayed.set_timeout(minutes, self.site.max_timeouts)
            delayed.dump(path)
        text = self.folder / f"{self.token}.sh"
        text.write_text(script(self.array, self.site, self.folder, self.name, dependency))
        self.note(SENDING, None)
        answer = run(["sbatch", "--parsable", str(text)]).strip()
        identity = answer.splitlines()[-1].partition(";")[0]
        if not identity.isdigit():
            raise SchedulerError(f"sbatch answered {answer!r}, where the number of a job was expected")
        self.note(SENDING, identity)
        # A job that has started already waits for its file.
        for index, path in pickles.items():
            path.rename(self.folder / f"{identity}_{index}_submitted.pkl")
        return identity

    def note(self, state: str, identity: str | None) -> None:
        names = {index: job.name for index, job in self.array.tasks.items()}
        value = {"name": self.name, "state": state, "id": identity, "jobs": names}
        path = self.folder / f"{self.token}.array.json"
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(value, indent=1))
        draft.replace(path)


class _TextExecutor(SlurmExecutor):
    """submitit's executor for its script alone, which can be written where there is no SLURM."""

    @classmethod
    def affinity(cls) -> int:
        return 1


def _clean(label: str) -> str:
    return _NAME.sub("-", label)


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except ValueError:
        return {}
