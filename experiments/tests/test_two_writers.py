"""A job that was queued again while its old process lives on: one of the two goes on, and the other stops first."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, read_json, write_json
from lmk_experiments.records import claim as claim_module
from lmk_experiments.records.atomic import append_line
from lmk_experiments.records.attempts import gpu_hours, starts_of
from lmk_experiments.records.claim import ClaimedElsewhere, claimed, holds, read_claim, revoke

WORKER = """
import os, sys, time
from pathlib import Path
from lmk_experiments.records import claim
claim.LOOK_SECONDS, claim.FENCE_SECONDS = 0.1, 1.0
claim.socket.gethostname = lambda: sys.argv[2]
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell
folder = Path(sys.argv[1])
def work(recorder):
    for step in range(int(sys.argv[3])):
        with (folder / "written").open("a") as file:
            file.write(f"{time.time()} {sys.argv[2]}\\n")
        recorder.progress(step + 1, int(sys.argv[3]))
        time.sleep(0.05)
    return {"metrics": {}}
work_on(Cell(folder), work)
"""


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path / "trainings" / "0123456789ab").create("training", {})


def worker(cell: Cell, host: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[str]:
    """A process that believes to be on ``host``, where the first of two of the same job was started."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    words = [sys.executable, "-c", WORKER, str(cell.folder), host, str(steps)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_old_process_stops_before_the_new_one_writes(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    old = worker(cell, "lost-node", 10_000, monkeypatch)
    deadline = time.monotonic() + 30
    while not (cell.folder / "written").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    new = worker(cell, "other-node", 5, monkeypatch)
    assert "another start of this cell may still run" in new.communicate(timeout=30)[0]
    assert new.returncode == 0
    said, _ = old.communicate(timeout=30)
    assert old.returncode == 75
    assert "another process has taken this cell over" in said
    hosts = [line.split()[1] for line in (cell.folder / "written").read_text().splitlines()]
    assert hosts == sorted(hosts), "all of the old one's lines are before the first of the new one's"
    assert hosts.count("other-node") == 5
    kinds = [event["event"] for event in cell.events()]
    assert kinds == ["attempt", "lost", "attempt", "done"]
    assert cell.done() is not None
    assert not (cell.folder / "claim.json").exists()


def test_a_claim_of_a_job_that_has_ended_is_taken_away(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """By ``lmk submit``, which knows that; should the process live on after all, it stops."""
    monkeypatch.setattr(claim_module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(claim_module, "FENCE_SECONDS", 0.3)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    lost: list[bool] = []
    with claimed(cell.folder, on_loss=lambda: lost.append(True)) as mine:
        revoke(cell.folder, "8")
        assert holds(cell.folder, mine), "another job's"
        revoke(cell.folder, "7")
        assert not holds(cell.folder, mine)
        deadline = time.monotonic() + 10
        while not lost and time.monotonic() < deadline:
            time.sleep(0.01)
        assert lost == [True]
        monkeypatch.setenv("SLURM_JOB_ID", "9")
        began = time.monotonic()
        with claimed(cell.folder) as next_one:
            assert time.monotonic() - began >= 0.05, "the process of the claim lives: there is a fence"
            assert holds(cell.folder, next_one)


def test_a_claim_that_is_taken_away_is_no_sign_of_life(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job dies on Friday, and `lmk submit` takes its claim away on Monday: it has used GPUs until Friday."""
    monkeypatch.setattr(claim_module, "FENCE_SECONDS", 0.0)
    friday = time.time() - 3 * 86400
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    write_json(cell.folder / "claim.json", {**vars(_claim()), "host": "lost-node", "job": "7"})
    append_line(cell.folder / "events.jsonl", {"time": friday - 3600, "event": "attempt", "job": "7", "gpus": 8})
    for name in ("claim.json", "events.jsonl"):
        os.utime(cell.folder / name, (friday, friday))
    revoke(cell.folder, "7")
    assert read_claim(cell.folder / "claim.json").revoked is not None  # ty: ignore[unresolved-attribute]
    assert starts_of(cell)[0].seconds(0.0) == pytest.approx(3600)
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    work_on(cell, lambda recorder: {"metrics": {}})
    lost, _ = starts_of(cell)
    assert (lost.end, gpu_hours([lost], 0.0)) == ("lost", pytest.approx(8.0))


def test_without_a_rival_nobody_waits(cell: Cell) -> None:
    began = time.monotonic()
    write_json(cell.folder / "claim.json", {**vars(_claim()), "pid": 1 << 30})
    with claimed(cell.folder):
        assert time.monotonic() - began < claim_module.FENCE_SECONDS / 2, "its process is known to be gone"


def test_a_disk_that_does_not_answer_takes_no_claim_away(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "LOOK_SECONDS", 0.02)
    lost: list[bool] = []
    with claimed(cell.folder, on_loss=lambda: lost.append(True)) as mine:
        whole = read_json(cell.folder / "claim.json")
        (cell.folder / "claim.json").write_text("{")
        time.sleep(0.2)
        write_json(cell.folder / "claim.json", whole)
        time.sleep(0.2)
        assert not lost
        assert holds(cell.folder, mine)


def test_the_claim_of_another_job_is_respected(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    write_json(cell.folder / "claim.json", {**vars(_claim()), "host": "elsewhere", "job": "7"})
    with pytest.raises(ClaimedElsewhere), claimed(cell.folder):
        pass
    assert (read_claim(cell.folder / "claim.json") or _claim()).job == "7"


def _claim() -> claim_module.Claim:
    return claim_module.Claim(claim_module.socket.gethostname(), 1, 0.0, "x")
