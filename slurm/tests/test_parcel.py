"""A submitter that is killed on the way. `sbatch` and `squeue` are scripts; the rest is real."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_slurm import Job, SchedulerError, Site, orphans, submit_jobs

Make = Callable[..., Job]


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the commands do and say."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def make(**bodies: str) -> None:
        for name, body in bodies.items():
            (folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name).chmod(0o755)

    make(sacct="exit 1", squeue="echo must not be asked >&2; exit 1")
    return make


def the_note(folder: Path) -> dict:
    [path] = folder.glob("*.array.json")
    return json.loads(path.read_text())


def test_taken_by_the_scheduler_and_not_noted(tmp_path: Path, make: Make, scheduler: Callable) -> None:
    """Killed before the answer came: the token finds the array, and its jobs get their pickles."""
    folder, job = tmp_path / "sent", make("a")
    scheduler(sbatch="echo killed >&2; exit 1")
    with pytest.raises(SchedulerError):
        submit_jobs([job], Site(), folder, label="grid")
    note = the_note(folder)
    assert (note["state"], note["id"]) == ("sending", None)
    assert not (folder / "17_0_submitted.pkl").exists(), "a job that ran ahead would have nothing to run"
    scheduler(squeue=f"echo '17|{note['name']}'")
    [orphan] = orphans([folder])
    assert orphan.jobs[job.argument].ticket.id == "17_0"
    assert orphan.names == {job.argument: "a"}
    assert (folder / "17_0_submitted.pkl").exists()
    assert [one.jobs for one in orphans([folder])] == [orphan.jobs], "until the caller has noted it"
    orphan.close()
    assert orphans([folder]) == []


def test_never_taken_can_never_run(tmp_path: Path, make: Make, scheduler: Callable) -> None:
    folder = tmp_path / "sent"
    scheduler(sbatch="exit 1", squeue="exit 0")
    with pytest.raises(SchedulerError):
        submit_jobs([make("a")], Site(), folder, label="grid")
    assert orphans([folder]) == []
    assert the_note(folder)["state"] == "abandoned"
    assert not list(folder.glob("*.pkl")), "a sbatch that outlives its caller hands over jobs without work"


def test_killed_while_noting(tmp_path: Path, make: Make, scheduler: Callable) -> None:
    folder = tmp_path / "sent"
    scheduler(sbatch="echo 23")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit_jobs([make("a"), make("b")], Site(), folder, label="grid", on_sent=killed)
    [orphan] = orphans([folder])  # nobody is asked: the number is in the note
    assert sorted(one.ticket.id for one in orphan.jobs.values()) == ["23_0", "23_1"]


def test_a_whole_submit_leaves_nothing(tmp_path: Path, make: Make, scheduler: Callable) -> None:
    scheduler(sbatch="echo 23")
    submit_jobs([make("a")], Site(), tmp_path / "sent", label="grid")
    assert orphans([tmp_path / "sent"]) == []


def test_a_scheduler_that_does_not_answer_leaves_the_note_open(tmp_path: Path, make: Make, scheduler: Callable) -> None:
    scheduler(sbatch="exit 1")
    with pytest.raises(SchedulerError):
        submit_jobs([make("a")], Site(), tmp_path / "sent", label="grid")
    with pytest.raises(SchedulerError, match="must not be asked"):
        orphans([tmp_path / "sent"])
    assert the_note(tmp_path / "sent")["state"] == "sending"
