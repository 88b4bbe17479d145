"""A job that mirrors itself to a real server: seen while it runs, right when it is killed, never held up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cells import LAST, Root
from mlflow_server import Server

from lmk_experiments.mirror import sync
from lmk_experiments.mirror.cells import write_cell
from lmk_experiments.mirror.lock import locked
from lmk_experiments.mirror.wanted import Place, wanted
from lmk_experiments.mirror.writer import Writer

PATIENCE_SECONDS = 300.0


@pytest.fixture
def make(tmp_path: Path, tracking_server: Server) -> Callable[..., Root]:
    return lambda cells=1: Root(tmp_path / "it's a root", tracking_server.url, cells)


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def go_on(root: Root, number: int = 0) -> None:
    (root.cell(number).folder / "go").touch()


def test_a_job_is_seen_while_it_runs_and_finished_when_it_ends(make: Callable[..., Root]) -> None:
    root = make()
    with root.start(hold=10) as job:
        until(lambda: root.ids[0] in root.runs())
        until(lambda: root.steps(root.runs()[root.ids[0]]) == list(range(1, 11)))
        assert root.runs()[root.ids[0]].info.status == "RUNNING"
        sync(root.path, uri=root.store)
        go_on(root)
    assert job.returncode == 0
    until(lambda: root.runs()[root.ids[0]].info.status == "FINISHED")
    runs = root.runs()
    assert root.steps(runs[root.ids[0]]) == list(range(1, LAST + 1))
    assert runs[root.ids[0]].data.tags["mlflow.parentRunId"] == runs["live"].info.run_id
    assert runs[root.ids[0]].data.params["optim.steps"] == str(LAST)
    assert root.said() == []
    sync(root.path, uri=root.store)
    assert sync(root.path, uri=root.store).writes == 0
    # What the job used is there too, as MLflow's own page of system metrics wants it.
    used = {name: value for name, value in runs[root.ids[0]].data.metrics.items() if name.startswith("system/")}
    assert used["system/process_memory_usage_megabytes"] > 10
    assert used["system/disk_available_megabytes"] > 0
    assert 0 < used["system/system_memory_usage_percentage"] < 100


def test_a_killed_job_is_not_left_running_and_goes_on_in_the_same_run(make: Callable[..., Root]) -> None:
    root = make()
    # What it has forked holds every pipe of its own, and lives on: its mirror sees its end all the same.
    with root.start(hold=10, FORKS="1") as job:
        until(lambda: (root.cell().folder / "held").exists())
        until(lambda: root.ids[0] in root.runs() and len(root.steps(root.runs()[root.ids[0]])) == 10)
        job.kill()
    until(lambda: root.runs()[root.ids[0]].info.status == "KILLED")
    sync(root.path, uri=root.store)
    runs = root.runs()
    assert {run.info.status for run in runs.values()} == {"KILLED"}
    go_on(root)
    with root.start() as again:  # from step 8, the last that was saved
        pass
    assert again.returncode == 0
    sync(root.path, uri=root.store)
    after = root.runs()
    assert {name: run.info.run_id for name, run in after.items()} == {
        name: run.info.run_id for name, run in runs.items()
    }
    assert {run.info.status for run in after.values()} == {"FINISHED"}
    assert [line["step"] for line in root.cell().metrics()] == list(range(1, LAST + 1))
    assert (root.cell().folder / "metrics.jsonl").read_text().count('"step": 9,') == 2
    assert root.steps(after[root.ids[0]]) == list(range(1, LAST + 1))
    assert after[root.ids[0]].data.tags["lmk.attempts"] == "2"


def test_a_job_whose_server_is_killed_goes_on_and_a_sync_completes_it(
    make: Callable[..., Root], tracking_server: Server
) -> None:
    root = make(2)
    with root.start(0, hold=10) as first:
        until(lambda: root.ids[0] in root.runs())
        tracking_server.kill()
        with root.start(1) as second:  # which never sees a server
            pass
        until(lambda: root.said(0) and root.said(1))
        time.sleep(1)
        go_on(root, 0)
    assert (first.returncode, second.returncode) == (0, 0)
    for number in range(2):
        assert [f"server {root.store} cannot be used now" in line for line in root.said(number)] == [True]
    tracking_server.start()
    report = sync(root.path, uri=root.store)
    assert (report.created, report.updated) == (1, 1)
    runs = root.runs()
    assert [root.steps(runs[identity]) for identity in root.ids] == [list(range(1, LAST + 1))] * 2
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert sync(root.path, uri=root.store).writes == 0


def test_a_server_that_is_back_is_said_once(make: Callable[..., Root], tracking_server: Server) -> None:
    root = make()
    with root.start(hold=10) as job:
        until(lambda: root.ids[0] in root.runs())
        tracking_server.signal(signal.SIGSTOP)  # it takes connections and answers none
        try:
            until(lambda: len(root.said()) == 1)
        finally:
            tracking_server.signal(signal.SIGCONT)
        until(lambda: len(root.said()) == 2)
        go_on(root)
    assert job.returncode == 0
    away, back = root.said()
    assert "cannot be used now" in away
    assert "answers again" in back


def test_jobs_and_two_syncs_at_once_make_one_run_a_cell(make: Callable[..., Root]) -> None:
    root = make(3)
    code = (
        "import sys, pathlib; from lmk_experiments.mirror import sync;"
        "[sync(pathlib.Path(sys.argv[1]), uri=sys.argv[2], wait_seconds=100) for _ in range(3)]"
    )
    jobs = [root.start(number, hold=19) for number in range(3)]
    syncs = [subprocess.Popen([sys.executable, "-c", code, str(root.path), root.store]) for _ in range(2)]
    try:
        assert [process.wait(PATIENCE_SECONDS) for process in syncs] == [0, 0]
        for number in range(3):
            go_on(root, number)
        assert [process.wait(PATIENCE_SECONDS) for process in jobs] == [0, 0, 0]
    finally:
        for process in (*jobs, *syncs):
            process.kill()
    sync(root.path, uri=root.store)
    runs = root.runs()
    assert set(runs) == {*root.ids, "live"}
    for identity in root.ids:
        assert root.steps(runs[identity]) == list(range(1, LAST + 1))
    assert sync(root.path, uri=root.store).writes == 0


def test_a_cell_that_another_process_is_just_writing_is_left_for_the_next_sync(make: Callable[..., Root]) -> None:
    root = make(2)
    for number in range(2):
        with root.start(number, LMK_LIVE_SECONDS="0"):
            pass
    with locked(root.cell(0).folder / "mlflow.lock"):
        report = sync(root.path, uri=root.store, wait_seconds=0.5)
    assert report.created == 1
    assert len(report.warnings) == 1
    assert f"left for the next sync: the MLflow run of cell {root.ids[0]} is held by process" in report.warnings[0]
    assert sync(root.path, uri=root.store).created == 1


def test_a_sync_that_looked_before_a_job_ended_does_not_call_its_run_running(make: Callable[..., Root]) -> None:
    root = make()
    place = Place(root.ids[0], "training", 0, grids={"live"}, rows=["row0"])
    with root.start(hold=10, LMK_LIVE_SECONDS="0"):
        until(lambda: (root.cell().folder / "held").exists())
        before = wanted(root.path.resolve(), place)
        go_on(root)
    assert before is not None
    assert before.status == "RUNNING"
    writer = Writer(root.opened, "somebody")
    write_cell(writer, before, None, lambda _: None, wait_seconds=10)
    assert root.runs()[root.ids[0]].info.status == "FINISHED"


def follow(root: Root, answers: int) -> tuple[int, str]:
    """Follow a job that is over and has told of its cell, answering into ``answers``. Returns exit code and words."""
    words = "".join(json.dumps([word, str(root.cell().folder)]) + "\n" for word in ("follow", "leave"))
    gone = "1"  # the process that has started it is another one by now
    done = subprocess.run(
        [sys.executable, "-m", "lmk_experiments.mirror.live.follow", str(root.path), gone],
        input=words,
        stdout=answers,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "LMK_STORE": root.store},
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_short_job_said_is_read_although_it_is_over(tmp_path: Path, waits: bool) -> None:
    root = Root(tmp_path / "runs", "http://127.0.0.1:9")
    with root.start(LMK_LIVE_SECONDS="0"):
        pass
    heard, answers = os.pipe()
    if not waits:
        os.close(heard)
    code, said = follow(root, answers)
    os.close(answers)
    assert code == 0
    assert said.startswith(f"lmk: the tracking server {root.store} cannot be used now")
    assert said.count("\n") == 1
    if waits:
        assert os.read(heard, 100) == b"left\n"
        os.close(heard)


def test_a_damaged_record_is_not_taken_for_a_server_that_is_away(tmp_path: Path) -> None:
    root = Root(tmp_path / "runs", "http://127.0.0.1:9")
    (root.cell().folder / "cell.json").write_text("{")
    code, said = follow(root, subprocess.DEVNULL)
    assert code == 0
    assert "cell.json:1: not valid JSON" in said
    assert "cannot be used" not in said


def test_a_database_is_not_written_by_a_job(tmp_path: Path) -> None:
    root = Root(tmp_path / "runs", f"sqlite:///{tmp_path}/mlflow.db")
    with root.start() as job:
        pass
    assert (job.returncode, root.said()) == (0, [])
    assert not list(tmp_path.glob("mlflow.db*"))
    assert (root.cell().folder / "system.jsonl").exists()
