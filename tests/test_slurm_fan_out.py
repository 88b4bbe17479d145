"""The fan-out on a real scheduler, with cells that do next to nothing: failures, slow ones, cancels, second submits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmk_experiments.profiles import Profile
from lmk_experiments.records import GridRecord, RowRecord, TrainingRecord, evaluation_cell, training_cell
from lmk_experiments.records.attempts import attempts
from lmk_experiments.records.claim import read_claim
from lmk_experiments.records.tickets import last_job
from lmk_experiments.submit.grid import Submission, submissions, submit_cells
from lmk_experiments.submit.snapshot import Snapshot
from lmk_slurm import Job, Resources, parcel

pytestmark = pytest.mark.slurm
Lmk = Callable[..., subprocess.CompletedProcess[str]]
PATIENCE_SECONDS = 100


@pytest.fixture(autouse=True)
def _on_the_path(testbed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))


class TinyGrid:
    """A recorded grid whose trainings do what they are told, each with one evaluation."""

    def __init__(self, root: Path, **rows: str) -> None:
        self.root = root
        self.profile = Profile(profile="tiny", partition="main", memory_gb=1, max_array=4, at_once=4)
        self.trainings = {row: training_cell(root, f"{number:012x}") for number, row in enumerate(rows, 0xA000)}
        self.evaluations = {row: evaluation_cell(root, f"{number:012x}") for number, row in enumerate(rows, 0xE000)}
        for row, do in rows.items():
            self.trainings[row].create("training", {"do": do})
            self.evaluations[row].create("evaluation", {"training": self.trainings[row].id})
        self.record = GridRecord(
            "tiny",
            "",
            [TrainingRecord(cell.id, row, 0) for row, cell in self.trainings.items()],
            [
                RowRecord(row, 0, cell.id, {}, False, {"suite": self.evaluations[row].id})
                for row, cell in self.trainings.items()
            ],
        )
        self.record.save(root)

    def jobs(self) -> list[Job]:
        needs = Resources(cpus=1, memory_gb=1, hours=0.25)
        jobs = []
        for row in self.trainings:
            for kind, cell in (("train", self.trainings[row]), ("evaluate", self.evaluations[row])):
                after = () if kind == "train" else (f"train {row}",)
                done, logs = (cell.folder / "DONE.json",), cell.folder / "logs"
                name, function = f"{kind} {row}", f"slurm_cells:{kind}"
                jobs.append(Job(name, function, str(cell.folder), logs, after=after, done=done, resources=needs))
        return jobs

    def submit(self) -> Submission:
        return submit_cells(self.jobs(), self.record, self.root, self.profile, Snapshot(None, None))

    def release(self, row: str) -> None:
        (self.trainings[row].folder / "release").touch()

    def done(self) -> set[str]:
        cells = [*self.trainings.values(), *self.evaluations.values()]
        return {cell.id for cell in cells if (cell.folder / "DONE.json").exists()}


@pytest.fixture
def polled(lmk: Lmk, tmp_path: Path) -> Callable[[TinyGrid], dict[str, tuple[str, str]]]:
    """``lmk status`` from another folder and a fresh process, checked against the truth at both ends."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def look_once(grid: TinyGrid) -> dict[str, tuple[str, str]]:
        before = grid.done()
        said = lmk("status", "tiny", "--json", cwd=elsewhere, environment={"LMK_ROOT": str(grid.root)})
        after = grid.done()
        assert said.returncode == 0, said.stderr
        cells = json.loads(said.stdout)["cells"]
        shown = {cell["id"] for cell in cells if cell["state"] == "done"}
        assert before <= shown <= after, "status said done of a cell that was not, or not of one that was"
        return {f"{cell['kind']} {cell['row']}": (cell["state"], cell["reason"]) for cell in cells}

    return look_once


def until(grid: TinyGrid, polled: Callable, right: Callable[[dict[str, tuple[str, str]]], bool]) -> dict:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        states = polled(grid)
        if right(states):
            return states
        assert time.monotonic() < deadline, states
        time.sleep(0.3)


def test_of_ten_trainings_one_fails_and_one_is_slow(tmp_path: Path, polled: Callable, lmk: Lmk) -> None:
    rows = {f"row{number}": "ok" for number in range(8)}
    grid = TinyGrid(tmp_path / "runs", bad="fail", **rows, late="slow")
    started = time.monotonic()
    sent = grid.submit().sent
    assert len(sent) == 21, "ten trainings, ten evaluations and the sync at the end"
    arrays = {one.ticket.id.partition("_")[0] for one in sent.values()}
    assert len(arrays) == 7, "three arrays of trainings, three of evaluations (four tasks at most), one sync"

    def eight_are_done(states: dict[str, tuple[str, str]]) -> bool:
        return all(states[f"evaluation {row}"][0] == "done" for row in rows) and states["training bad"][0] == "failed"

    states = until(grid, polled, eight_are_done)
    assert states["training bad"] == ("failed", "ValueError: the loss is nan")
    assert states["training late"][0] == "running"
    assert states["evaluation late"] == ("queued", "Dependency")
    states = until(grid, polled, lambda states: states["evaluation bad"][0] == "failed")
    assert states["evaluation bad"] == ("failed", "its training did not finish")
    assert not grid.evaluations["bad"].events(), "it never ran"

    again = grid.submit()
    assert set(again.sent) == {"train bad", "evaluate bad", "sync tiny"}, "only what is missing, and not what runs"
    assert set(again.active) == {"train late", "evaluate late"}

    grid.release("late")
    until(grid, polled, lambda states: states["evaluation late"][0] == "done")
    until(grid, polled, lambda states: states["evaluation bad"] == ("failed", "its training did not finish"))
    print(f"all in {time.monotonic() - started:.0f} s")
    text = lmk("status", "tiny", "--root", grid.root, cwd=tmp_path).stdout
    assert text.startswith("tiny: 18 of 20 cells done")
    assert "failed (ValueError: the loss is nan)" in text
    said = lmk("tail", "tiny", "bad", "--root", grid.root, cwd=tmp_path)
    assert "ValueError: the loss is nan" in said.stdout, said.stdout + said.stderr


def test_records_say_who_ran_what_where_and_with_which_code(tmp_path: Path, polled: Callable) -> None:
    grid = TinyGrid(tmp_path / "runs", one="ok")
    grid.submit()
    until(grid, polled, lambda states: states["evaluation one"][0] == "done")
    cell = grid.trainings["one"]
    [attempt] = [event for event in cell.events() if event["event"] == "attempt"]
    note = last_job(cell.folder)
    assert note is not None
    assert attempt["job"] == note.id
    assert attempt["nodes"] == attempt["host"] != ""
    assert attempt["user"] == note.user
    assert Path(attempt["code"]).is_dir()


def test_a_row_is_cancelled_with_what_waits_for_it(tmp_path: Path, polled: Callable, lmk: Lmk) -> None:
    grid = TinyGrid(tmp_path / "runs", first="slow", second="slow")
    grid.submit()
    until(grid, polled, lambda states: all(states[f"training {row}"][0] == "running" for row in ("first", "second")))
    asked = lmk("cancel", "tiny", "first", "--root", grid.root, cwd=tmp_path)
    assert asked.returncode != 0, "no answer is no"
    assert "Cancel these 2 jobs?" in asked.stdout
    done = lmk("cancel", "tiny", "first", "--root", grid.root, "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cancelled 2 jobs" in done.stdout
    states = until(grid, polled, lambda states: states["training first"][0] == "stopped")
    assert states["training first"] == ("stopped", "cancelled")
    assert states["evaluation first"] == ("stopped", "cancelled")
    assert states["training second"][0] == "running"
    # A killed job leaves its claim behind: the next one need not wait for it to go stale.
    grid.release("first")
    assert set(grid.submit().sent) == {"train first", "evaluate first", "sync tiny"}
    until(grid, polled, lambda states: states["evaluation first"][0] == "done")
    assert lmk("cancel", "tiny", "--root", grid.root, "--yes", cwd=tmp_path).returncode == 0
    cancelled = ("stopped", "cancelled")
    until(grid, polled, lambda states: states["evaluation second"] == states["training second"] == cancelled)
    nothing = lmk("cancel", "tiny", "--root", grid.root, "--yes", cwd=tmp_path)
    assert "no job of this grid is queued or runs" in nothing.stdout
    wrong = lmk("cancel", "tiny", "frist", "--root", grid.root, cwd=tmp_path)
    assert "did you mean 'first'?" in wrong.stderr


@pytest.mark.parametrize(
    "command",
    [["scontrol", "requeue"], ["scancel", "--signal=USR2"]],
    ids=["taken away at once", "told to save and queue again"],
)
def test_a_job_that_is_queued_again_goes_on_with_its_cell(tmp_path: Path, polled: Callable, command: list[str]) -> None:
    grid = TinyGrid(tmp_path / "runs", one="slow")
    sent = grid.submit().sent
    until(grid, polled, lambda states: states["training one"][0] == "running")
    subprocess.run([*command, sent["train one"].ticket.id], check=True)
    until(grid, polled, lambda states: states["training one"][0] in ("preempted", "queued"))
    grid.release("one")
    until(grid, polled, lambda states: states["evaluation one"][0] == "done")
    attempts = [event for event in grid.trainings["one"].events() if event["event"] == "attempt"]
    assert [attempt["job"] for attempt in attempts] == [sent["train one"].ticket.id] * 2


def test_what_a_killed_submitter_left_is_taken_over(
    tmp_path: Path, polled: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between sbatch and the note: the next submit finds the array by its token, and submits only the rest."""
    grid = TinyGrid(tmp_path / "runs", one="ok", two="ok")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(parcel, "_deliver", killed)
        with pytest.raises(KeyboardInterrupt):
            grid.submit()
    assert last_job(grid.trainings["one"].folder) is None, "nobody has noted it"
    [note] = [json.loads(path.read_text()) for path in tmp_path.glob("runs/grids/tiny/submissions/*/*.array.json")]
    assert note["state"] == "sending"
    again = grid.submit()
    assert again.adopted == [note["id"]]
    assert set(again.sent) == {"evaluate one", "evaluate two", "sync tiny"}
    until(grid, polled, lambda states: all(state == "done" for state, _ in states.values()))
    assert [len(events) for events in attempts_of(grid)] == [1, 1, 1, 1]
    assert grid.submit().adopted == [], "once is enough"


def attempts_of(grid: TinyGrid) -> list[list[dict]]:
    cells = [*grid.trainings.values(), *grid.evaluations.values()]
    return [[event for event in cell.events() if event["event"] == "attempt"] for cell in cells]


def test_two_submits_at_once_send_each_job_once(tmp_path: Path, polled: Callable) -> None:
    grid = TinyGrid(tmp_path / "runs", one="ok", two="ok")
    with ThreadPoolExecutor() as pool:
        results = [future.result() for future in [pool.submit(grid.submit) for _ in range(3)]]
    assert sorted(len(one.sent) for one in results) == [0, 0, 5]
    found = sum(len(one.active) + one.done for one in results)
    assert found >= 8, "the others have found all four with the scheduler, or done"
    until(grid, polled, lambda states: all(state == "done" for state, _ in states.values()))
    assert [len(events) for events in attempts_of(grid)] == [1, 1, 1, 1]


def test_a_killed_process_and_memory_that_ran_out(tmp_path: Path, polled: Callable) -> None:
    grid = TinyGrid(tmp_path / "runs", killed="slow", memory="memory")
    grid.submit()
    until(grid, polled, lambda states: states["training killed"][0] == "running")
    claim = read_claim(grid.trainings["killed"].folder / "claim.json")
    assert claim is not None
    os.kill(claim.pid, signal.SIGKILL)

    def both_failed(states: dict[str, tuple[str, str]]) -> bool:
        return all(
            states[f"evaluation {row}"] == ("failed", "its training did not finish") for row in ("killed", "memory")
        )

    states = until(grid, polled, both_failed)
    assert states["training memory"] == ("failed", "MemoryError: 1 GB; submit again, and it asks for more")
    assert states["training killed"][0] == "failed"
    grid.release("killed")
    again = grid.submit()
    assert again.raised == {"train memory": 2.0}
    until(grid, polled, lambda states: all(state == "done" for state, _ in states.values()))
    ends = {row: [one.end for one in attempts(cell.events())] for row, cell in grid.trainings.items()}
    assert ends == {"killed": ["lost", "done"], "memory": ["out_of_memory", "done"]}
    note = last_job(grid.trainings["memory"].folder)
    assert note is not None
    assert (note.memory_gb, note.raised) == (2.0, True)
    said = subprocess.run(["scontrol", "show", "job", "-o", note.id], capture_output=True, text=True, check=True)
    assert "MinMemoryNode=2G" in said.stdout


def test_folders_of_submissions_are_in_order(tmp_path: Path) -> None:
    grid = TinyGrid(tmp_path / "runs", one="ok")
    grid.submit()
    assert len(submissions(grid.record, grid.root)) == 1
