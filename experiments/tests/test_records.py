"""What a cell leaves on disk: whole files, honest states, one writer."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from lmk_experiments.cli.grids import status
from lmk_experiments.cli.run_grid import prepare
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import (
    Cell,
    CellError,
    CellRecorder,
    ClaimedElsewhere,
    GridRecord,
    RowRecord,
    TrainingRecord,
    evaluation_cell,
    load_grid,
    read_json,
    training_cell,
    write_json,
)
from lmk_experiments.records import claim as claim_module
from lmk_experiments.records.atomic import append_line, read_lines
from lmk_experiments.records.claim import STALE_SECONDS, ClaimLost, claimed, heartbeat, holds
from lmk_experiments.records.grid import GridPreparing, preparing
from lmk_experiments.records.recorder import LINE_SECONDS, SayingRecorder

ID = "0123456789ab"


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return training_cell(tmp_path, ID).create("training", {"seed": 0})


def test_a_refused_value_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="nan"):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_file_has_the_mode_of_others_and_the_umask_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").touch()

    def touched(mask: int) -> int:
        raise AssertionError("what other threads make meanwhile would have this mode")

    monkeypatch.setattr(os, "umask", touched)
    write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    program = (
        "import resource, sys, pathlib, signal\n"
        "from lmk_experiments.records import write_json\n"
        "path = pathlib.Path(sys.argv[1])\nwrite_json(path, {'a': 1})\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n    write_json(path, {'a': 'x' * 10_000})\n"
        "except OSError:\n    print('refused')\n"
    )
    path = tmp_path / "a.json"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "refused"
    assert read_json(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_damaged_record_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n"a": }\n')
    with pytest.raises(ValueError, match=r"a\.json:2: not valid JSON"):
        read_json(tmp_path / "a.json")


def test_a_line_cut_short_spoils_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_line(path, {"step": 1})
    with path.open("a") as stream:
        stream.write('{"step": 2, "val')
    append_line(path, {"step": 3})
    assert [line["step"] for line in read_lines(path, {"step": (int,)})] == [1, 3]


def test_the_states_of_a_cell(cell: Cell) -> None:
    assert cell.state().name == "planned"
    recorder = CellRecorder(cell.folder)
    recorder.event("attempt")
    assert cell.state().name == "failed", "started, no claim, no word: it was killed"
    with claimed(cell.folder):
        recorder.progress(0, 40)
        recorder.progress(10, 40)
        state = cell.state()
        assert (state.name, state.done, state.total, state.unit) == ("running", 10, 40, "step")
        assert state.seconds_left is not None
    recorder.event("failed", reason="ValueError: no")
    assert str(cell.state()) == "failed (ValueError: no)"
    cell.finish(1.5, metrics={"train/loss": 0.5}, model="model")
    assert cell.state().name == "done"
    assert cell.done() is not None
    assert cell.done()["metrics"] == {"train/loss": 0.5}


def test_a_cell_takes_new_settings_until_it_is_worked_on_or_done(cell: Cell) -> None:
    created = cell.record["created"]
    assert cell.create("training", {"threads": 2}).config == {"threads": 2}
    assert cell.record["created"] == created
    with claimed(cell.folder):
        assert Cell(cell.folder).create("training", {"threads": 3}).config == {"threads": 2}
    cell.finish(1.0)
    assert Cell(cell.folder).create("training", {"threads": 4}).config == {"threads": 2}


def test_a_damaged_cell_is_written_again(cell: Cell) -> None:
    (cell.folder / "cell.json").write_text('{"schema": 1, "co')
    assert Cell(cell.folder).create("training", {"seed": 0}).config == {"seed": 0}


def test_a_copied_folder_is_not_the_cell(cell: Cell, tmp_path: Path) -> None:
    other = tmp_path / "trainings" / "ffffffffffff"
    cell.folder.rename(other)
    with pytest.raises(CellError, match="id is '0123456789ab', but the folder says 'ffffffffffff'"):
        Cell(other).config  # noqa: B018 - reading it is the test


@pytest.mark.parametrize("identity", ["../../etc", "0123", "0123456789AB", ""])
def test_identities_are_checked_before_they_become_paths(identity: str, tmp_path: Path) -> None:
    for make in (training_cell, evaluation_cell):
        with pytest.raises(CellError, match="12 hex digits"):
            make(tmp_path, identity)


def test_curves_keep_the_last_value_of_a_step_run_twice(cell: Cell) -> None:
    recorder = CellRecorder(cell.folder)
    for step, loss in [(1, 3.0), (2, 2.0), (1, 2.5), (2, 1.5)]:
        recorder.metrics({"train/loss": loss}, step)
    recorder.metrics({"validation/ndcg_at_10": 0.5}, 2)
    curve = [(line["step"], line["values"]) for line in cell.metrics()]
    assert curve == [(1, {"train/loss": 2.5}), (2, {"train/loss": 1.5, "validation/ndcg_at_10": 0.5})]


def test_a_value_that_is_not_finite_is_said_and_left_out(cell: Cell) -> None:
    CellRecorder(cell.folder).metrics({"a": float("inf"), "b": 1.0}, 3)
    assert cell.metrics()[0]["values"] == {"b": 1.0}
    assert cell.events()[-1]["names"] == ["a"]


def test_one_writer_at_a_time(cell: Cell) -> None:
    with claimed(cell.folder), pytest.raises(ClaimedElsewhere, match=f"process {os.getpid()}"), claimed(cell.folder):
        pass
    assert not (cell.folder / "claim.json").exists()


def test_the_claim_of_a_killed_process_is_taken_over(cell: Cell) -> None:
    program = (
        "import sys, pathlib, time\nfrom lmk_experiments.records.claim import claimed\n"
        "with claimed(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(cell.folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(ClaimedElsewhere), claimed(cell.folder):
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    with claimed(cell.folder) as mine:
        assert mine.pid == os.getpid()


def test_a_reused_process_id_is_not_the_claimant(cell: Cell) -> None:
    started = psutil.Process().create_time() - 1000
    claim = {"host": socket.gethostname(), "pid": os.getpid(), "started": started, "token": "x"}
    write_json(cell.folder / "claim.json", claim)
    with claimed(cell.folder) as mine:
        assert mine.token != "x"


def test_another_hosts_claim_is_respected_while_it_lives(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "FENCE_SECONDS", 0.1)
    path = cell.folder / "claim.json"
    write_json(path, {"host": "elsewhere", "pid": 1, "started": 0.0, "token": "x"})
    with pytest.raises(ClaimedElsewhere, match="elsewhere"), claimed(cell.folder):
        pass
    old = time.time() - STALE_SECONDS - 1
    os.utime(path, (old, old))
    with claimed(cell.folder) as mine:
        assert mine.host == socket.gethostname()


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"host": 1', '{"host": "h", "pid": "x"}'])
def test_a_garbled_claim_is_no_claim(cell: Cell, text: str) -> None:
    (cell.folder / "claim.json").write_text(text)
    assert cell.state().name == "planned"
    with claimed(cell.folder) as mine:
        assert holds(cell.folder, mine)


def test_of_many_take_overs_at_once_one_wins(cell: Cell) -> None:
    write_json(cell.folder / "claim.json", {"host": socket.gethostname(), "pid": 1 << 30, "started": 0.0, "token": "x"})
    inside: list[str] = []
    refused: list[str] = []
    gate, leave = threading.Barrier(8), threading.Event()

    def take_over() -> None:
        gate.wait()
        try:
            with claimed(cell.folder) as mine:
                inside.append(mine.token)
                leave.wait(10)
        except ClaimedElsewhere as error:
            refused.append(str(error))

    threads = [threading.Thread(target=take_over) for _ in range(8)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while len(inside) + len(refused) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    leave.set()
    for thread in threads:
        thread.join()
    assert (len(inside), len(refused)) == (1, 7)


def test_a_silent_claimant_still_gives_signs_of_life(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(claim_module, "LOOK_SECONDS", 0.02)
    with claimed(cell.folder):
        os.utime(cell.folder / "claim.json", (1, 1))
        deadline = time.monotonic() + 10
        while heartbeat(cell.folder) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert time.time() - heartbeat(cell.folder) < 60


def test_a_cell_that_was_taken_over_writes_no_result(cell: Cell) -> None:
    def work(recorder: CellRecorder) -> dict[str, object]:
        write_json(cell.folder / "claim.json", {"host": "elsewhere", "pid": 1, "started": 0.0, "token": "y"})
        return {"metrics": {}}

    with pytest.raises(ClaimLost, match="taken over"):
        work_on(cell, work)
    assert cell.done() is None


def test_a_result_that_cannot_be_written_is_a_recorded_failure(cell: Cell) -> None:
    with pytest.raises(ValueError, match="nan"):
        work_on(cell, lambda recorder: {"metrics": {"a": float("nan")}})
    assert cell.state().name == "failed"
    assert cell.done() is None


@pytest.mark.parametrize("how", [KeyboardInterrupt(), SystemExit(143)])
def test_what_was_stopped_has_not_failed(how: BaseException, tmp_path: Path) -> None:
    cell = training_cell(tmp_path, "0" * 12).create("training", {})

    def work(_: CellRecorder) -> dict[str, str]:
        raise how

    with pytest.raises(type(how)):
        work_on(cell, work)
    assert str(cell.state()) == "stopped (run it again to go on)"
    append_line(cell.folder / "events.jsonl", {"time": 1, "event": "rank_failed", "reason": "rank 1 of 2"})
    assert str(cell.state()) == "failed (rank 1 of 2)"


def test_a_grid_that_has_just_been_started_is_told_from_one_that_was_not(tmp_path: Path) -> None:
    with preparing(tmp_path, "mine", "its data is being built: quickstart"):
        with pytest.raises(
            GridPreparing, match=rf"mine: its data is being built: quickstart \(process {os.getpid()} on"
        ):
            load_grid(tmp_path, "mine")
        note = (tmp_path / "grids/mine/preparing.json").read_text()
    with pytest.raises(ValueError, match="no grid 'mine' was run"):
        load_grid(tmp_path, "mine")
    (tmp_path / "grids/mine/preparing.json").write_text(note.replace(str(os.getpid()), "2147483600"))
    with pytest.raises(ValueError, match="no grid 'mine' was run"):  # its process is gone
        load_grid(tmp_path, "mine")


def test_status_says_that_the_data_of_a_run_is_being_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(name: str, root: Path, **_: object) -> None:
        status("quickstart", root)
        raise KeyboardInterrupt

    monkeypatch.setattr("lmk_experiments.builders.build", build)
    with pytest.raises(KeyboardInterrupt):
        prepare("quickstart", tmp_path, ())
    assert capsys.readouterr().out.startswith("quickstart: its data is being built: quickstart (process ")


def test_a_grids_record_round_trips(tmp_path: Path) -> None:
    record = GridRecord(
        name="g",
        title="A title",
        trainings=[TrainingRecord(ID, "cls", 0)],
        rows=[RowRecord("cls", 0, ID, {"kind": "cls"}, True, {"short": "ba9876543210"})],
        table={"columns": []},
        source="g.yaml",
    )
    record.save(tmp_path)
    assert load_grid(tmp_path, "g") == record
    assert json.loads((tmp_path / "grids/g/grid.json").read_text())["grid"] == "g"
    with pytest.raises(ValueError, match="it holds: g"):
        load_grid(tmp_path, "h")


def test_a_job_says_in_its_log_how_far_it_is(tmp_path, capsys, monkeypatch):
    recorder = SayingRecorder(tmp_path)
    clock = [100.0]
    monkeypatch.setattr("lmk_experiments.records.recorder.time.monotonic", lambda: clock[0])
    for step in range(1, 5):
        recorder.metrics({"train/loss": 1 / step}, step)
        recorder.progress(step, 4)
        clock[0] += LINE_SECONDS * 0.6
    assert capsys.readouterr().err.splitlines() == [
        "step 1/4, loss 1",
        "step 3/4, loss 0.3333, 18 s left",
        "step 4/4, loss 0.25",
    ]


def test_a_job_says_that_it_stops_and_where_it_goes_on(tmp_path, capsys):
    recorder = SayingRecorder(tmp_path, steps=False)
    recorder.event("resumed", step=22)
    recorder.progress(23, 30)
    recorder.event("preempted", step=25, signal="SIGTERM", seconds=0.1)
    recorder.event("start", device="cpu")
    assert capsys.readouterr().err.splitlines() == [
        "goes on from step 22",
        "told to stop by SIGTERM; step 25 is saved, and the same command goes on there",
    ]
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) >= 3


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    recorder = SayingRecorder(tmp_path)
    full = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", buffering=1)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", full)
        recorder.progress(1, 2)
    with contextlib.suppress(OSError):
        full.close()
    assert json.loads((tmp_path / "progress.json").read_text())["done"] == 1
