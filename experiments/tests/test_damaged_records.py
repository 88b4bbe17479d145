"""Records that are no JSON or of another shape: one cell says so, and everything else goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_experiments.cli.main import main
from lmk_experiments.jobs.work import work_on
from lmk_experiments.mirror.curves import pieces
from lmk_experiments.records import (
    Cell,
    CellRecorder,
    GridRecord,
    RowRecord,
    TrainingRecord,
    evaluation_cell,
    load_grid,
    load_grids,
    training_cell,
)
from lmk_experiments.records.claim import claimed
from lmk_experiments.records.tickets import last_job
from lmk_experiments.submit.states import grid_states
from lmk_experiments.tables.collect import grid_table

SUITE = {"name": "tiny", "tasks": [{"name": "Needle", "folder": "built:x"}]}
WRONG = ["[]", "{}", "null", "3", "{", '{"time": "now", "event": 3, "id": 1, "finished": 4}', b"\xff\xfe"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two trainings, each with one reading, all done: the rows `one` and `two` of grid `g`."""
    rows = []
    for number, name in enumerate(("one", "two"), 1):
        training = training_cell(tmp_path, f"{number:012x}").create("training", {"seed": 0})
        config = {"training": training.id, "pooling": {}, "max_length": 64, "suite": SUITE}
        evaluation = evaluation_cell(tmp_path, f"{number + 16:012x}").create("evaluation", config)
        for cell in (training, evaluation):
            CellRecorder(cell.folder).event("attempt")
        training.finish(1.0, model="model", metrics={})
        evaluation.finish(1.0, scores={"Needle": {"main_score": number / 10}})
        rows.append(RowRecord(name, 0, training.id, {}, number == 1, {"tiny": evaluation.id}))
    trainings = [TrainingRecord(row.training, row.row, 0) for row in rows]
    GridRecord("g", "G", trainings, rows).save(tmp_path)
    return tmp_path


def put(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def states(root: Path) -> dict[str, str]:
    cells = grid_states(load_grid(root, "g"), root).cells
    return {f"{one.kind} {one.row}": str(one.state) for one in cells}


def scores(root: Path) -> list[float | None]:
    return [row.cells[0].value for row in grid_table(root, "g").rows]


def lmk(*arguments: str | Path) -> int:
    """The exit code of one call of the command, in this process."""
    before = sys.argv
    sys.argv = ["lmk", *map(str, arguments)]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = before


@pytest.mark.parametrize(
    "wrong", [*WRONG, '{"finished": "2026-01-01T00:00:00+00:00", "seconds": 1, "scores": {"a": 1}}']
)
def test_a_done_file_that_cannot_be_read_is_not_done(root: Path, wrong: str | bytes) -> None:
    put(evaluation_cell(root, f"{17:012x}").folder / "DONE.json", wrong)
    found = states(root)
    assert found.pop("evaluation one").startswith("failed (DONE.json cannot be read: ")
    assert set(found.values()) == {"done"}
    assert scores(root) == [None, 20.0]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_cell_is_done_again_where_its_done_file_cannot_be_read(root: Path, wrong: str | bytes) -> None:
    cell = training_cell(root, f"{1:012x}")
    put(cell.folder / "DONE.json", wrong)
    said = cell.put_aside()
    assert "DONE.json cannot be read" in said
    assert "DONE.json.unreadable" in said
    assert not (cell.folder / "DONE.json").exists(), "a scheduler looks at nothing else"
    assert cell.state().name == "failed"
    assert "DONE.json cannot be read" in cell.state().reason
    work_on(cell, lambda recorder: {"model": "again"})
    assert cell.done() is not None
    assert cell.done()["model"] == "again"
    assert cell.put_aside() == ""


def test_an_evaluation_without_scores_does_not_become_done(root: Path) -> None:
    cell = evaluation_cell(root, f"{99:012x}").create("evaluation", {})
    with pytest.raises(ValueError, match="scores"):
        work_on(cell, lambda recorder: {})
    assert cell.state().name == "failed"
    assert not (cell.folder / "DONE.json").exists()


@pytest.mark.parametrize("wrong", WRONG)
def test_a_claim_that_cannot_be_read_is_told_and_taken_over(root: Path, wrong: str | bytes) -> None:
    cell = training_cell(root, f"{1:012x}")
    (cell.folder / "DONE.json").unlink()
    put(cell.folder / "claim.json", wrong)
    assert states(root)["training one"].startswith("failed (claim.json cannot be read: ")
    with claimed(cell.folder):
        assert cell.state().name == "running"


@pytest.mark.parametrize("pid", [-1, 0, 10**30])
def test_a_claim_of_an_impossible_process_is_none(root: Path, pid: int) -> None:
    cell = training_cell(root, f"{1:012x}")
    (cell.folder / "DONE.json").unlink()
    with claimed(cell.folder):
        claim = json.loads((cell.folder / "claim.json").read_text())
        put(cell.folder / "claim.json", json.dumps({**claim, "pid": pid}))
        assert "claim.json cannot be read: key 'pid'" in states(root)["training one"]


@pytest.mark.parametrize("wrong", WRONG)
def test_progress_that_cannot_be_read_leaves_a_cell_running(root: Path, wrong: str | bytes) -> None:
    cell = training_cell(root, f"{1:012x}")
    (cell.folder / "DONE.json").unlink()
    with claimed(cell.folder):
        put(cell.folder / "progress.json", wrong)
        assert states(root)["training one"].startswith("running (progress.json cannot be read: ")
        assert cell.progress() is None


@pytest.mark.parametrize("line", ["[]", "{}", '{"time": 1}', '{"event": "attempt"}', '{"time": 1, "event": null}'])
def test_an_event_of_another_shape_is_left_out_and_told(root: Path, line: str) -> None:
    cell = training_cell(root, f"{1:012x}")
    with (cell.folder / "events.jsonl").open("a") as stream:
        stream.write(line + "\n")
    assert [event["event"] for event in cell.events()] == ["attempt"]
    assert states(root)["training one"].startswith("done (events.jsonl:2: ")
    assert scores(root) == [10.0, 20.0]
    (cell.folder / "DONE.json").unlink()
    assert "events.jsonl:2: " in states(root)["training one"]


@pytest.mark.parametrize("line", ["[]", "{}", '{"time": 1, "values": {}}', '{"step": "1", "time": 1, "values": {}}'])
def test_metrics_of_another_shape_are_left_out_and_told(root: Path, line: str) -> None:
    cell = training_cell(root, f"{1:012x}")
    put(cell.folder / "metrics.jsonl", f'{{"step": 1, "time": 1.0, "values": {{"a": 2.0}}}}\n{line}\n')
    assert [point["values"] for point in cell.metrics()] == [{"a": 2.0}]
    (piece,) = pieces(cell.folder / "metrics.jsonl", None)
    assert ["metrics.jsonl:2: " in wrong for wrong in piece.wrong] == [True]
    assert set(states(root).values()) == {"done"}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_cell_file_that_cannot_be_read_is_told_and_written_anew(root: Path, wrong: str | bytes) -> None:
    cell = evaluation_cell(root, f"{17:012x}")
    put(cell.folder / "cell.json", wrong)
    assert scores(root) == [10.0, 20.0], "the scores are all there"
    (cell.folder / "DONE.json").unlink()
    assert states(root)["evaluation one"].startswith("failed (cell.json cannot be read: ")
    assert scores(root) == [None, 20.0]
    assert Cell(cell.folder).create("evaluation", {"a": 1}).config == {"a": 1}


def test_a_note_of_a_job_of_another_shape_names_no_job(root: Path) -> None:
    cell = training_cell(root, f"{1:012x}")
    put(cell.folder / "jobs.jsonl", '{}\n[]\n{"id": 3}\n')
    assert last_job(cell.folder) is None
    assert set(states(root).values()) == {"done"}


def broken(change: Callable[[dict], object]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        value = json.loads(text)
        change(value)
        return json.dumps(value)

    return apply


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: "[]", r"grid\.json: expected an object, found a list"),
        (lambda text: "{}", r"grid\.json: key 'grid' is missing"),
        (lambda text: "{", r"grid\.json:1: not valid JSON"),
        (broken(lambda value: value.pop("rows")), r"grid\.json: key 'rows' is missing"),
        (broken(lambda value: value["trainings"].append(3)), r"grid\.json: trainings\[2\]: expected an object"),
        (broken(lambda value: value["rows"][1].pop("seed")), r"grid\.json: rows\[1\]: key 'seed' is missing"),
        (broken(lambda value: value["rows"][0].update(evaluations={"tiny": 3})), r"rows\[0\]\.evaluations: key 'tiny'"),
        (broken(lambda value: value["rows"][0].update(training="x")), r"rows\[0\]: 'x' is not a cell's identity"),
    ],
)
def test_a_grid_file_of_another_shape_is_told_by_file_and_key(
    root: Path, change: Callable[[str], str], told: str
) -> None:
    path = root / "grids" / "g" / "grid.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=told):
        load_grid(root, "g")


def test_a_key_of_a_later_version_is_left_out(root: Path) -> None:
    path = root / "grids" / "g" / "grid.json"
    before = load_grid(root, "g")
    path.write_text(broken(lambda value: value["rows"][0].update(later=1))(path.read_text()))
    assert load_grid(root, "g") == before


def test_another_grids_broken_file_leaves_the_others(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = root / "grids" / "other" / "grid.json"
    other.parent.mkdir()
    other.write_text("{")
    found, unreadable = load_grids(root)
    assert [grid.name for grid in found] == ["g"]
    assert len(unreadable) == 1
    assert str(other) in unreadable[0]
    assert lmk("table", "g", "--root", root, "--from", "records") == 0
    assert lmk("compare", "one", "two", "--root", root) == 0
    capsys.readouterr()
    assert lmk("status", "other", "--root", root) == 2
    assert f"error: {other}:1: not valid JSON" in capsys.readouterr().err


def test_a_store_that_cannot_be_used_is_one_plain_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["sync"], ["ui"]):
        assert lmk(*verb, "--root", root, "--store", "ftp://nowhere") == 1
        told = capsys.readouterr().err
        assert told.startswith("error: 'ftp://nowhere' is not a store"), told
        assert told.count("\n") == 1


def test_a_lock_of_another_sync_is_one_plain_line(root: Path) -> None:
    (root / "mlflow-sync.lock").write_text('{"host": "elsewhere", "pid": 1, "since": "today"}')
    command = [sys.executable, "-m", "lmk_experiments.cli.main", "sync", "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("error: "), done.stderr
    assert "is held by process 1 on elsewhere" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_scheduler_that_does_not_answer_is_failed_work(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lmk_experiments.records import ClaimedElsewhere
    from lmk_slurm import SchedulerError

    for error in (SchedulerError("squeue does not answer"), ClaimedElsewhere("process 3 works on it")):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("lmk_experiments.submit.states.grid_states", fail)
        assert lmk("status", "g", "--root", root) == 1
        assert capsys.readouterr().err == f"error: {error}\n"
