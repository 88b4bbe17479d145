"""Trainings whose processes are the tasks of one srun step, on several nodes of a real scheduler."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from lmk_experiments.profiles import Profile
from lmk_experiments.records import Cell, GridRecord, TrainingRecord, training_cell
from lmk_experiments.records.claim import claimed
from lmk_experiments.submit.grid import submit_cells
from lmk_experiments.submit.snapshot import Snapshot
from lmk_slurm import Job, Resources, Site, Ticket, look, submit_jobs
from lmk_slurm.launcher import Phase

pytestmark = pytest.mark.slurm
PATIENCE_SECONDS = 100


@pytest.fixture(autouse=True)
def _on_the_path(testbed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))


@pytest.fixture
def submit(tmp_path: Path) -> Callable[..., dict[str, Cell]]:
    """Submits trainings of two nodes with two tasks each and waits until the scheduler says that all have ended."""

    def run(**rows: str) -> dict[str, Cell]:
        root = tmp_path / "runs"
        cells = {row: training_cell(root, f"{number:012x}") for number, row in enumerate(rows, 0xA000)}
        jobs = []
        for row, do in rows.items():
            values = {"do": do, "model": {"path": "/nowhere"}, "data": {"train": []}, "runtime": {"threads": 1}}
            cell = cells[row].create("training", values)
            done, needs = (cell.folder / "DONE.json",), Resources(nodes=2, tasks=2, cpus=1, memory_gb=1, hours=0.25)
            function = "slurm_cells:train_together"
            jobs.append(Job(row, function, str(cell.folder), cell.folder / "logs", done=done, resources=needs))
        trainings = [TrainingRecord(cell.id, row, 0) for row, cell in cells.items()]
        profile = Profile.model_validate({"profile": "tiny", "partition": "main", "sync": {"enabled": False}})
        record = GridRecord("tiny", "", trainings, [])
        record.save(root)
        sent = submit_cells(jobs, record, root, profile, Snapshot(None, None)).sent
        wait_for([one.ticket for one in sent.values()])
        return cells

    return run


def wait_for(tickets: list[Ticket]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all(seen.phase is Phase.ENDED for seen in look(tickets).values()):
        assert time.monotonic() < deadline, look(tickets)
        time.sleep(0.3)


def events(cell: Cell, kind: str) -> list[dict[str, Any]]:
    return [event for event in cell.events() if event["event"] == kind]


def ranks(cell: Cell) -> list[str]:
    return sorted(path.read_text().strip() for path in cell.folder.glob("rank-*"))


def test_the_tasks_of_a_step_are_the_ranks_of_one_training(submit: Callable, testbed: Path) -> None:
    cells = submit(good="", raising="2:raise", killed="1:die")
    good = cells["good"]
    assert good.state().name == "done"
    first, second = ("n1", "n2") if (testbed.parent / "namespaces").exists() else (os.uname().nodename,) * 2
    assert [line.split(" on ")[0] for line in ranks(good)] == [f"{rank} of 4" for rank in range(4)]
    assert [line.split("device ")[1] for line in ranks(good)] == ["0", "1", "0", "1"]
    [attempt], [start] = events(good, "attempt"), events(good, "start")
    assert len(start["nodes"]) == len({first, second})
    assert start["runtime"] == {"threads": 1, "devices": 2, "nodes": 2}, "the step says how many there are"
    assert attempt["nodes"].startswith("n[")
    assert len(events(good, "done")) == 1

    [failed] = events(cells["raising"], "failed")
    assert "rank 2 of 4 on " in failed["reason"]
    assert failed["reason"].endswith("ValueError: the loss is nan")
    [told] = events(cells["raising"], "rank_failed")
    assert (told["rank"], told["processes"]) == (2, 4)
    assert "slurm_cells.py" in told["trace"]
    [failed] = events(cells["killed"], "failed")
    assert "rank 1 of 4 on " in failed["reason"]
    assert "it ended without a word" in failed["reason"]
    assert not any((cells[row].folder / "DONE.json").exists() for row in ("raising", "killed"))


def test_where_there_is_nothing_to_do_all_tasks_end(tmp_path: Path) -> None:
    """A cell that is done already, and one in the hands of another process, which fails on the first rank alone."""
    values = {"do": "", "model": {"path": "/nowhere"}, "data": {"train": []}}
    cells = [training_cell(tmp_path, f"{number:012x}").create("training", values) for number in (0xA000, 0xA001)]
    cells[0].finish(1.0, model="model", metrics={})
    needs = Resources(nodes=2, tasks=2, cpus=1, memory_gb=1, hours=0.25)
    jobs = [
        Job(name, "slurm_cells:train_together", str(cell.folder), cell.folder, done=(tmp_path / "no",), resources=needs)
        for name, cell in zip(("done", "held"), cells, strict=True)
    ]
    with claimed(cells[1].folder):
        sent = submit_jobs(jobs, Site(partition="main"), tmp_path / "submissions" / "one", label="nothing")
        tickets = [sent[job.name].ticket for job in jobs]
        wait_for(tickets)
    ends = look(tickets)
    assert [ends[ticket.id].state for ticket in tickets] == ["COMPLETED", "FAILED"]
    for ticket in tickets:
        logs = [tmp_path / "submissions" / "one" / f"{ticket.id}_{rank}_log.out" for rank in range(4)]
        assert all(log.exists() for log in logs)
        if ticket is tickets[0]:
            assert all("nothing to do here" in log.read_text() for log in logs[1:])
        else:
            assert "ClaimedElsewhere" in logs[0].read_text()
    assert not any(ranks(cell) for cell in cells)


@pytest.mark.slow
def test_two_nodes_with_two_tasks_train_what_one_process_does(
    tmp_path: Path, finished: Path, mini: Callable[..., Path], lmk: Callable
) -> None:
    """The whole way, from a grid that asks for two nodes; without dropout, so that the weights can be compared."""
    suites = [{"name": "short", "tasks": [{"name": "f", "folder": "built:quickstart-tiny/eval/short"}]}]
    weights = {}
    for name, resources in (("one", {}), ("two", {"nodes": 2, "tasks": 2})):
        folder = tmp_path / name
        grid = mini(
            folder,
            train=[{"row": "mean", "pooling": {"kind": "mean"}, "optim": {"eps": 1e-6}}],
            evaluate={"suites": suites, "max_length": 64},
            resources={"train": resources},
        )
        profile = {"profile": "main", "partition": "main", "memory_gb": 4, "offline": True, "sync": {"enabled": False}}
        (folder / "main.yaml").write_text(yaml.safe_dump(profile))
        shutil.copytree(finished / "runs" / "built", folder / "runs" / "built")
        sent = lmk("submit", grid, "--profile", "main.yaml", "--dirty", cwd=folder)
        assert sent.returncode == 0, sent.stdout + sent.stderr
    for name in ("one", "two"):
        [cell] = [Cell(path) for path in (tmp_path / name / "runs" / "trainings").iterdir()]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while cell.done() is None:
            assert time.monotonic() < deadline, cell.events()
            time.sleep(0.5)
        weights[name] = load_file(cell.folder / "model" / "model.safetensors")
    [start] = events(cell, "start")
    assert (start["processes"], start["devices_per_node"]) == (4, 2)
    assert len(start["nodes"]) == 2
    assert max((weights["one"][key] - weights["two"][key]).abs().max() for key in weights["one"]) < 1e-6
