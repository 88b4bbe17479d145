"""Jobs on a real scheduler that mirror themselves, and what becomes of their runs when they are stopped."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cells import Root
from mlflow_server import Server

from lmk_experiments.mirror import sync
from lmk_experiments.profiles import Profile
from lmk_experiments.records import load_grid
from lmk_experiments.records.attempts import attempts
from lmk_experiments.submit.grid import submit_cells
from lmk_experiments.submit.snapshot import Snapshot
from lmk_slurm import Job, Resources

pytestmark = pytest.mark.slurm
PATIENCE_SECONDS = 200


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.slow
def test_no_run_is_left_running_after_scancel_a_kill_or_a_requeue(
    testbed: Path, tmp_path: Path, tracking_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))
    root = Root(tmp_path / "runs", tracking_server.url, cells=3)
    variables = {"LMK_STORE": root.store, "LMK_LIVE_SECONDS": "0.5"}
    profile = Profile(profile="tiny", partition="main", memory_gb=1, environment=variables, sync={"enabled": False})
    needs = Resources(cpus=1, memory_gb=1, hours=0.25)
    jobs = [
        Job(
            f"train {number}",
            "slurm_cells:train_in_steps",
            str(root.cell(number).folder),
            root.cell(number).folder / "logs",
            done=(root.cell(number).folder / "DONE.json",),
            resources=needs,
        )
        for number in range(3)
    ]
    sent = submit_cells(jobs, load_grid(root.path, "live"), root.path, profile, Snapshot(None, None)).sent
    ids = [sent[job.name].ticket.id for job in jobs]
    # From a node, and while it runs: nobody has synced yet.
    until(lambda: {run.info.status for run in root.runs().values()} == {"RUNNING"} and len(root.runs()) == 3)
    before = {name: run.info.run_id for name, run in root.runs().items()}

    for command in (["scancel", ids[0]], ["scancel", "--signal=KILL", ids[1]], ["scontrol", "requeue", ids[2]]):
        subprocess.run(command, check=True)
    until(lambda: _state(ids[0]) == "CANCELLED" and _state(ids[1]) not in ("RUNNING", "COMPLETING"))
    until(lambda: attempts(root.cell(2).events())[0].ended is not None)
    sync(root.path, uri=root.store)
    statuses = {name: run.info.status for name, run in root.runs().items()}
    assert "RUNNING" not in statuses.values() or attempts(root.cell(2).events())[-1].ended is None
    assert [statuses[root.ids[number]] for number in range(2)] == ["KILLED", "KILLED"]

    (root.cell(2).folder / "release").touch()
    until(lambda: root.cell(2).done() is not None)
    sync(root.path, uri=root.store)
    runs = root.runs()
    assert {name: run.info.run_id for name, run in runs.items()}.items() >= before.items()
    assert runs[root.ids[2]].info.status == "FINISHED"
    assert runs[root.ids[2]].data.tags["lmk.attempts"] == "2"
    assert root.steps(runs[root.ids[2]]) == list(range(1, 11))
    assert "RUNNING" not in {run.info.status for run in runs.values()}
    assert sync(root.path, uri=root.store).writes == 0


def _state(job: str) -> str:
    command = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "GONE"
