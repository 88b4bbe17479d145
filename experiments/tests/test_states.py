"""The state of a submitted cell: ``DONE.json``, then the scheduler's word, then the records."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from lmk_experiments.records import Cell, CellRecorder, write_json
from lmk_experiments.records import claim as claim_module
from lmk_experiments.records.claim import ClaimedElsewhere, claimed
from lmk_experiments.records.tickets import JobNote, last_job, note_job
from lmk_experiments.submit.states import cell_state
from lmk_slurm import Sighting
from lmk_slurm.scheduler import GONE

NOTE = JobNote(
    id="7_3", name="grid-a", job="train a", log="/logs/7_3_0_log.out", time=0.0, profile="p", user="u", host="h",
    commit=None, code=None,
)  # fmt: skip


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    made = Cell(tmp_path / "trainings" / "0123456789ab").create("training", {})
    note_job(made.folder, NOTE)
    return made


def attempt(cell: Cell, job: str = "7_3") -> CellRecorder:
    recorder = CellRecorder(cell.folder)
    recorder.event("attempt", job=job)
    return recorder


def said(cell: Cell, state: str, reason: str = "") -> tuple[str, str]:
    found = cell_state(cell, NOTE, Sighting(state, reason))
    return found.name, found.reason


def test_a_job_that_waits(cell: Cell) -> None:
    assert said(cell, "PENDING", "Priority") == ("queued", "Priority")
    attempt(cell)
    assert said(cell, "PENDING", "BeginTime") == ("preempted", "BeginTime"), "it ran before"


def test_words_on_the_way_from_one_start_to_the_next(cell: Cell) -> None:
    attempt(cell)
    for word in ("REQUEUED", "REQUEUE_FED", "CONFIGURING"):
        assert said(cell, word) == ("preempted", word)
    assert said(cell, "PREEMPTED")[0] == "preempted", "pushed out for good is no failure"
    attempt(cell).event("stopped", cause="preempted")
    assert said(cell, "RUNNING") == ("preempted", "its job starts again")
    assert said(cell, "COMPLETING") == ("running", "ending")


def test_a_running_cell_without_a_sign_of_life(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    attempt(cell)
    with claimed(cell.folder):
        for name in ("claim.json", "events.jsonl"):
            os.utime(cell.folder / name, (time.time() - 400, time.time() - 400))
        state = cell_state(cell, NOTE, Sighting("RUNNING"))
    assert state.name == "running"
    assert state.reason.startswith("no sign of life for 6 min")


def test_a_job_that_runs(cell: Cell) -> None:
    assert said(cell, "RUNNING")[0] == "queued", "it has other cells to do first"
    recorder = attempt(cell)
    with claimed(cell.folder):
        recorder.progress(3, 10)
        state = cell_state(cell, NOTE, Sighting("RUNNING"))
    assert (state.name, state.done, state.total) == ("running", 3, 10)
    recorder.event("failed", reason="ValueError: x")
    assert said(cell, "COMPLETING") == ("running", "ending")


@pytest.mark.parametrize(
    ("word", "reason", "why"),
    [
        ("CANCELLED", "DependencyNeverSatisfied", "what it waits for did not finish"),
        ("OUT_OF_MEMORY", "", "out of memory"),
        ("TIMEOUT", "", "its time was up"),
        ("NODE_FAIL", "", "its node was lost"),
        ("COMPLETED", "", "its job ended without finishing it"),
        ("FAILED", "exit code 3", "its job ended as FAILED (exit code 3)"),
    ],
)
def test_a_job_that_ended_without_the_mark_has_failed(cell: Cell, word: str, reason: str, why: str) -> None:
    assert said(cell, word, reason) == ("failed", why)


def test_a_job_that_somebody_cancelled_has_stopped(cell: Cell) -> None:
    assert said(cell, "CANCELLED", "by 1000") == ("stopped", "cancelled")


def test_the_cells_own_word_on_a_failure_is_better_than_the_schedulers(cell: Cell) -> None:
    attempt(cell).event("failed", reason="ValueError: the loss is nan")
    assert said(cell, "FAILED", "exit code 1") == ("failed", "ValueError: the loss is nan")
    attempt(cell, "9_0").event("failed", reason="another time")
    assert said(cell, "FAILED", "exit code 1") == ("failed", "its job ended as FAILED (exit code 1)")


def test_the_mark_is_the_truth_whatever_the_scheduler_says(cell: Cell) -> None:
    cell.finish(1.0, model="model")
    for word in ("PENDING", "RUNNING", "FAILED", "NODE_FAIL", "GONE", "A_NEW_WORD"):
        assert said(cell, word)[0] == "done"


def test_what_cannot_be_known_is_not_made_up(cell: Cell) -> None:
    assert said(cell, "A_NEW_WORD") == ("unknown", "A_NEW_WORD")
    assert cell_state(cell, NOTE, GONE).name == "failed"
    state = cell_state(cell, NOTE, None)
    assert (state.name, state.reason) == ("unknown", "submitted as 7_3")


def test_the_last_job_counts(cell: Cell) -> None:
    second = JobNote(**{**vars(NOTE), "id": "8_0"})
    note_job(cell.folder, second)
    assert last_job(cell.folder) == second
    assert last_job(cell.folder.parent) is None


def test_a_job_queued_again_takes_its_own_claim_over(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost node leaves a claim behind, whose process nobody can ask."""
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    monkeypatch.setattr(claim_module, "FENCE_SECONDS", 0.1)
    lost = {"host": f"not-{socket.gethostname()}", "pid": os.getpid(), "started": 0.0, "token": "x"}
    write_json(cell.folder / "claim.json", {**lost, "job": "8_0"})
    with pytest.raises(ClaimedElsewhere), claimed(cell.folder):
        pass
    write_json(cell.folder / "claim.json", {**lost, "job": "7_3"})
    with claimed(cell.folder) as mine:
        assert mine.job == "7_3"
