"""An evaluation that several jobs of a real scheduler encode, and one more scores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_experiments.jobs.shares import shares_of
from lmk_experiments.records import Cell

pytestmark = pytest.mark.slurm
Lmk = Callable[..., subprocess.CompletedProcess[str]]
PATIENCE_SECONDS = 200


@pytest.mark.slow
def test_shares_and_then_the_scores_of_one_job(
    testbed: Path, finished: Path, tmp_path: Path, mini: Callable[..., Path], lmk: Lmk
) -> None:
    suites = [{"name": "short", "tasks": [{"name": "functions", "folder": "built:quickstart-tiny/eval/short"}]}]
    grid = mini(
        tmp_path,
        train=[{"row": "untrained", "pooling": {"kind": "mean"}, "optim": {"steps": 0}}],
        evaluate={"suites": suites, "max_length": 64},
        resources={"evaluate": {"shares": 2}},
    )
    root = tmp_path / "runs"
    for held in ("built", "trainings"):
        shutil.copytree(finished / "runs" / held, root / held)
    sent = lmk("submit", grid, "--profile", "testbed", "--dirty", cwd=tmp_path)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert [name for name in ("share 1 of 2", "share 2 of 2", "evaluate untrained ") if name not in sent.stdout] == []
    assert "4 jobs submitted, 1 done" in sent.stdout  # the last one mirrors the records
    again = lmk("submit", grid, "--profile", "testbed", "--dirty", cwd=tmp_path)
    assert "0 jobs submitted" in again.stdout, again.stdout + again.stderr

    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        cells = json.loads(lmk("status", "mini", "--json", cwd=tmp_path).stdout)["cells"]
        (evaluation,) = (cell for cell in cells if cell["kind"] == "evaluation")
        if evaluation["state"] in ("done", "failed"):
            break
        assert time.monotonic() < deadline, evaluation
        time.sleep(1)
    assert evaluation["state"] == "done", evaluation["reason"]
    folder = Path(evaluation["folder"])
    shares = shares_of(folder)
    assert [share.id for share in shares] == ["1-of-2", "2-of-2"]
    jobs = [next(event["job"] for event in share.events() if event["event"] == "attempt") for share in shares]
    assert len({job.partition("_")[0] for job in jobs}) == 1, "one array"
    assert len(set(jobs)) == 2
    own, alone = (Cell(where).done() for where in (folder, finished / "runs" / folder.relative_to(root)))
    assert own is not None
    assert alone is not None
    assert own["scores"] == alone["scores"]


def test_cancelling_a_grid_stops_its_shares_too(
    testbed: Path, finished: Path, tmp_path: Path, mini: Callable[..., Path], lmk: Lmk
) -> None:
    grid = mini(
        tmp_path,
        train=[{"row": "untrained", "pooling": {"kind": "mean"}, "optim": {"steps": 0}}],
        evaluate={
            "suites": [{"name": "short", "tasks": [{"name": "f", "folder": "built:quickstart-tiny/eval/short"}]}],
            "max_length": 64,
        },
        resources={"evaluate": {"shares": 2}},
    )
    for held in ("built", "trainings"):
        shutil.copytree(finished / "runs" / held, tmp_path / "runs" / held)
    profile = tmp_path / "held.yaml"
    profile.write_text("{profile: held, partition: main, memory_gb: 4, offline: true, sbatch: {hold: true}}")
    sent = lmk("submit", grid, "--profile", profile, "--dirty", cwd=tmp_path)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    status = lmk("status", "mini", cwd=tmp_path).stdout
    assert "0 of 2 shares are encoded" in status
    stopped = lmk("cancel", "mini", "--yes", cwd=tmp_path)
    assert "cancelled 3 jobs" in stopped.stdout, stopped.stdout + stopped.stderr
    names = [line.split()[-1] for line in sent.stdout.splitlines() if "share" in line or "evaluate" in line]
    left = subprocess.run(
        ["squeue", "--noheader", "--format=%i %T", f"--jobs={','.join(names)}"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert "PENDING" not in left.stdout
    assert "RUNNING" not in left.stdout
