"""One array on its way to the scheduler, and what becomes of it when whoever sends it is killed meanwhile.

Before sbatch is called a note is written with a token that is also in the name of the jobs. The note stays at
``sending`` until the caller has noted every job. So a later submitter can ask the scheduler for the token, and take the
array over instead of sending its jobs twice. The jobs cannot run ahead: each waits for its pickle, which gets its final
name only when the array's number is in the note.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submitit.core.utils import DelayedSubmission

from lmk_slurm.arrays import Array
from lmk_slurm.child import call
from lmk_slurm.scheduler import SchedulerError, Ticket, find, run

SENDING, SENT, ABANDONED = "sending", "sent", "abandoned"
_ANY_NUMBER = 1_000_000
"""Of time-outs that submitit allows: our own handler of signals counts none, the job's function decides."""
_NAME = re.compile(r"[^A-Za-z0-9._+-]")


@dataclass(frozen=True)
class Sent:
    """One job that the scheduler has taken."""

    ticket: Ticket
    log: Path
    """what the job prints; its file appears when the job starts"""


@dataclass(frozen=True)
class Orphan:
    """An array that was handed over by a submitter that did not live to note it."""

    note: Path
    jobs: dict[str, Sent]
    """each job's argument, and what it is with the scheduler"""
    names: dict[str, str]
    """each job's argument, and its name"""

    def close(self) -> None:
        """Says that its jobs are noted now."""
        _write(self.note, {**_read(self.note), "state": SENT})


class Parcel:
    """One array, its token, and its note in ``folder``."""

    def __init__(self, array: Array, folder: Path, label: str) -> None:
        self.token = secrets.token_hex(4)
        self.array, self.folder = array, folder
        self.name = f"{clean(label)}-{self.token}"
        self._note = folder / f"{self.token}.array.json"

    def send(self, script: str) -> str:
        """Sends it; the id of the array."""
        minutes = 60 * (self.array.resources.hours or 0)
        for index, job in self.array.tasks.items():
            delayed = DelayedSubmission(call, job.function, job.argument)
            delayed.set_timeout(max(1, round(minutes)), _ANY_NUMBER)
            delayed.dump(self.folder / f"{self.token}_{index}.pkl")
        text = self.folder / f"{self.token}.sh"
        text.write_text(script)
        self._say(SENDING, None)
        answer = run(["sbatch", "--parsable", str(text)]).strip()
        identity = answer.splitlines()[-1].partition(";")[0]
        if not identity.isdigit():
            raise SchedulerError(f"sbatch answered {answer!r}, where the number of a job was expected")
        self._say(SENDING, identity)
        _deliver(self.folder, self.token, identity, self.array.tasks)
        return identity

    def sent(self, index: int, identity: str) -> Sent:
        """One job of it, with the scheduler's number."""
        return _sent(self.folder, self.name, identity, index)

    def close(self, identity: str) -> None:
        """Says that the caller has noted every job."""
        self._say(SENT, identity)

    def _say(self, state: str, identity: str | None) -> None:
        jobs = {index: {"name": job.name, "argument": job.argument} for index, job in self.array.tasks.items()}
        _write(self._note, {"name": self.name, "state": state, "id": identity, "jobs": jobs})


def orphans(folders: Sequence[Path]) -> list[Orphan]:
    """The arrays that killed submitters have left with the scheduler; the caller notes their jobs, then closes each.

    What never reached the scheduler is marked so, and its pickles are removed: should it arrive later after all, from a
    command that outlived its caller, its jobs find nothing to run.

    Args:
        folders: folders of earlier submissions. Nobody may be submitting to one of them.

    Raises:
        SchedulerError: the scheduler cannot be asked.
    """
    notes = [path for folder in folders for path in sorted(folder.glob("*.array.json"))]
    opened = [(path, note) for path in notes if (note := _read(path)).get("state") == SENDING]
    asked = find([note["name"] for _, note in opened if not note.get("id")])
    found = []
    for path, note in opened:
        folder, token = path.parent, path.name.partition(".")[0]
        identity = note.get("id") or asked.get(note["name"])
        jobs: dict[int, dict[str, str]] = {int(index): job for index, job in note["jobs"].items()}
        if identity is None:
            for index in jobs:
                (folder / f"{token}_{index}.pkl").unlink(missing_ok=True)
            _write(path, {**note, "state": ABANDONED})
            continue
        _write(path, {**note, "id": identity})
        _deliver(folder, token, identity, jobs)
        sent = {job["argument"]: _sent(folder, note["name"], identity, index) for index, job in jobs.items()}
        found.append(Orphan(path, sent, {job["argument"]: job["name"] for job in jobs.values()}))
    return found


def clean(label: str) -> str:
    """``label`` as part of a job's name."""
    return _NAME.sub("-", label)


def _deliver(folder: Path, token: str, identity: str, indices: Any) -> None:
    # A job that has started already waits for its file.
    for index in indices:
        draft = folder / f"{token}_{index}.pkl"
        if draft.exists():
            draft.rename(folder / f"{identity}_{index}_submitted.pkl")


def _sent(folder: Path, name: str, identity: str, index: int) -> Sent:
    return Sent(Ticket(f"{identity}_{index}", name), folder / f"{identity}_{index}_0_log.out")


def _write(path: Path, value: dict[str, Any]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(value, indent=1))
    draft.replace(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except ValueError:
        return {}
