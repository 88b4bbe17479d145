"""A real grid on a real scheduler, from ``lmk submit`` to its table; and nodes that talk to each other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmk_experiments.doctor.probe import submit_probe, wait_for_probe
from lmk_experiments.profiles import Profile
from lmk_experiments.records import Cell
from lmk_experiments.records.tickets import last_job
from lmk_experiments.submit.snapshot import Snapshot

pytestmark = pytest.mark.slurm
Lmk = Callable[..., subprocess.CompletedProcess[str]]
REPOSITORY = Path(__file__).parent.parent
SOURCES = ("packages/core/src", "packages/train/src", "packages/eval/src", "slurm/src", "experiments/src")
PATIENCE_SECONDS = 300


def wait_until_settled(lmk: Lmk, root: Path, grid: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        said = lmk("status", grid, "--root", root, "--json", cwd=root.parent)
        assert said.returncode == 0, said.stderr
        cells = json.loads(said.stdout)["cells"]
        for cell in cells:
            assert (cell["state"] != "done") or (Path(cell["folder"]) / "DONE.json").exists()
        if {cell["state"] for cell in cells} <= {"done", "failed"}:
            return cells
        assert time.monotonic() < deadline, cells
        time.sleep(1)


def result_of(folder: Path) -> dict[str, Any]:
    """What a cell came to, without what depends on the clock."""
    done = Cell(folder).done()
    assert done is not None, folder
    metrics = {name: value for name, value in done.get("metrics", {}).items() if "per_second" not in name}
    return {**{key: value for key, value in done.items() if key not in ("finished", "seconds")}, "metrics": metrics}


@pytest.mark.slow
def test_a_submitted_grid_comes_to_the_same_table_as_one_that_was_run(
    testbed: Path, finished: Path, tmp_path: Path, mini: Callable[..., Path], lmk: Lmk
) -> None:
    grid, root = mini(tmp_path), tmp_path / "runs"
    shutil.copytree(finished / "runs" / "built", root / "built")
    sent = lmk("submit", grid, "--profile", "testbed", "--dirty", cwd=tmp_path)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert "7 jobs submitted" in sent.stdout
    again = lmk("submit", grid, "--profile", "testbed", "--dirty", cwd=tmp_path)
    assert "0 jobs submitted" in again.stdout, again.stdout + again.stderr

    cells = wait_until_settled(lmk, root, "mini")
    assert [cell["state"] for cell in cells] == ["done"] * 13
    assert {cell["attempts"] for cell in cells} == {1}
    for cell in cells:
        folder = Path(cell["folder"])
        assert result_of(folder) == result_of(finished / "runs" / folder.relative_to(root))
    tables = [lmk("table", "mini", "--from", "records", cwd=where).stdout for where in (tmp_path, finished)]
    assert tables[0] == tables[1] != ""

    deadline = time.monotonic() + 90
    while not (root / "grids" / "mini" / "SYNCED.json").exists():
        assert time.monotonic() < deadline, "the job at the end did not mirror the records"
        time.sleep(1)
    assert "12 of 13" not in lmk("status", "mini", cwd=tmp_path).stdout
    third = lmk("submit", grid, "--profile", "testbed", "--dirty", cwd=tmp_path)
    assert "0 jobs submitted, 6 done" in third.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout of this repository's sources as they are now, everything committed."""
    copy = tmp_path / "checkout"
    for source in SOURCES:
        shutil.copytree(REPOSITORY / source, copy / source, ignore=shutil.ignore_patterns("__pycache__"))
    for data in ("grids", "presets", "tables", "profiles"):
        shutil.copytree(REPOSITORY / "experiments" / data, copy / "experiments" / data)
    ident = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for command in (("init", "-q"), ("add", "."), (*ident, "commit", "-q", "-m", "as it is")):
        subprocess.run(["git", *command], cwd=copy, check=True)
    return copy


@pytest.mark.slow
def test_a_running_job_keeps_the_code_it_was_submitted_with(
    testbed: Path, tmp_path: Path, mini: Callable[..., Path], checkout: Path
) -> None:
    suites = [{"name": "short", "tasks": [{"name": "f", "folder": "built:quickstart-tiny/eval/short"}]}]
    grid = mini(
        tmp_path,
        train=[{"row": "untrained", "pooling": {"kind": "mean"}, "optim": {"steps": 0}}],
        evaluate={"suites": suites, "max_length": 64},
    )
    # The jobs start some seconds after the edit.
    held = {"profile": "held", "partition": "main", "memory_gb": 8, "offline": True, "sbatch": {"begin": "now+4"}}
    (tmp_path / "held.yaml").write_text(yaml.safe_dump(held))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(str(checkout / source) for source in SOURCES)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lmk_experiments.cli.main", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=variables)

    built = run("data", "build", "quickstart-tiny")
    assert built.returncode == 0, built.stderr
    sent = run("submit", str(grid), "--profile", "held.yaml")
    assert sent.returncode == 0, sent.stdout + sent.stderr
    edited = checkout / "experiments/src/lmk_experiments/jobs/train.py"
    edited.write_text('raise RuntimeError("this is the edited file")\n')

    [training] = (tmp_path / "runs" / "trainings").iterdir()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (training / "DONE.json").exists():
        assert time.monotonic() < deadline, (training / "jobs.jsonl").read_text()
        time.sleep(0.5)
    [attempt] = [event for event in Cell(training).events() if event["event"] == "attempt"]
    note = last_job(training)
    assert note is not None
    assert attempt["code"] == note.code == str(next((tmp_path / "runs/grids/mini/code").iterdir()))
    assert attempt["commit"] == note.commit
    assert attempt["dirty"] is False

    edited.write_text(edited.read_text() + "# and more\n")
    refused = run("submit", str(grid), "--profile", "held.yaml")
    assert refused.returncode == 2
    assert "experiments/src/lmk_experiments/jobs/train.py" in refused.stderr
    assert "--dirty" in refused.stderr
    taken = run("submit", str(grid), "--profile", "held.yaml", "--dirty")
    assert taken.returncode == 0, taken.stderr
    [diff] = (tmp_path / "runs/grids/mini/code").glob("*/dirty.diff")
    assert "this is the edited file" in diff.read_text()
    assert (diff.parent / "experiments/src/lmk_experiments/jobs/train.py").read_text() == edited.read_text()


@pytest.mark.slow
def test_processes_of_two_nodes_talk_to_each_other(testbed: Path, tmp_path: Path) -> None:
    profile = Profile(profile="main", partition="main", memory_gb=4, environment={"OMP_NUM_THREADS": "1"})
    sent, path = submit_probe(profile, tmp_path, Snapshot(None, None), nodes=2, tasks=2)
    report = wait_for_probe(sent, path, 120)
    assert report["nodes"] == "n[1-2]"
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1, 2, 3]
    hosts = [rank["host"] for rank in report["ranks"]]
    assert len(set(hosts)) == 2 or not (testbed.parent / "namespaces").exists()
    assert hosts == sorted(hosts)
    assert len({rank["pid"] for rank in report["ranks"]}) == 4
    assert report["backend"] == "gloo"
    assert report["sum_is_right"] is True
    assert report["job"] == sent.ticket.id


def test_the_doctor_looks_at_the_cluster(testbed: Path, tmp_path: Path, lmk: Lmk) -> None:
    good = lmk("doctor", "--profile", "testbed", cwd=tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr
    for line in ("ok    partition: one is UP", "ok    training: would be taken", "ok    sacct: answers"):
        assert line in good.stdout
    wrong = {
        "profile": "wrong",
        "partition": "mian",
        "account": "nobody",
        "max_array": 5000,
        "max_hours": 24 * 8,
        "gpu": {"type": "a100", "per_node": 8},
    }
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    bad = lmk("doctor", "--profile", "wrong.yaml", cwd=tmp_path)
    assert bad.returncode == 1
    assert "fail  partition: there is no 'mian'; valid: high, low, lowc, lowg, main, one" in bad.stdout
    assert "fail  arrays: max_array is 5000, and the cluster takes 1000 at most" in bad.stdout
    assert "fail  training: would be refused" in bad.stdout
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({**wrong, "partition": "main"}))
    bad = lmk("doctor", "--profile", "wrong.yaml", cwd=tmp_path)
    assert "fail  gpus: no 'a100' in main; valid: h100" in bad.stdout
    assert "warn  time: max_hours is 192, and the partition gives 168" in bad.stdout
    asking = {**wrong, "partition": "main", "train": {"hours": 24 * 8}}
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(asking))
    bad = lmk("doctor", "--profile", "wrong.yaml", cwd=tmp_path)
    assert "fail  time: 192 hours are asked, and the partition gives 168" in bad.stdout
