from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from lmk_experiments.mirror import open_store, read_scores, sync
from lmk_experiments.records import CellRecorder, load_grid, training_cell
from lmk_experiments.records.claim import claimed


def database(uri):
    return hashlib.sha256(Path(uri.removeprefix("sqlite:///")).read_bytes()).hexdigest()


def test_every_cell_gets_one_run_under_its_grid(two_rows, uri):
    report = sync(two_rows.path, uri=uri, user="ada")
    assert (report.created, report.updated, report.unchanged, report.waiting) == (5, 0, 0, 0)
    trainings, evaluations = two_rows.runs(uri), two_rows.runs(uri, "evaluation")
    assert sorted(trainings) == [f"{1:012x}", f"{2:012x}", "grid small"]
    assert sorted(evaluations) == [f"{n:012x}" for n in (11, 12, 13)] + ["grid small"]
    first = trainings[f"{1:012x}"]
    expected = {
        "lmk.cell": f"{1:012x}",
        "lmk.kind": "training",
        "lmk.row": "cls,multicls",
        "lmk.grids": "small",
        "lmk.seed": "0",
        "lmk.root": str(two_rows.path.resolve()),
        "lmk.user": "ada",
        "lmk.attempts": "1",
        "mlflow.parentRunId": trainings["grid small"].info.run_id,
    }
    assert expected.items() <= first.data.tags.items()
    assert first.data.params["optim.steps"] == "4"
    assert first.info.status == "FINISHED"
    assert two_rows.points(uri, first) == [(1, 2.0), (2, 1.5)]
    reading = evaluations[f"{12:012x}"]
    assert reading.info.run_name == "multicls / tiny"
    assert reading.data.tags["mlflow.parentRunId"] == evaluations["grid small"].info.run_id
    assert reading.data.metrics["tiny/Needle/ndcg_at_10:quarter:1"] == 1 / 3 / 3
    assert json.loads(two_rows.artifact(uri, reading, "scores.json"))["Needle"]["main_score"] == 1 / 3
    assert json.loads(two_rows.artifact(uri, first, "cell.json"))["config"]["pooling"] == {"kind": "cls"}


def test_times_are_those_of_the_records(two_rows, uri):
    sync(two_rows.path, uri=uri)
    cell = training_cell(two_rows.path, f"{1:012x}")
    run = two_rows.runs(uri)[cell.id]
    assert run.info.start_time == round(cell.events()[0]["time"] * 1000)
    history = open_store(two_rows.path, uri).client.get_metric_history(run.info.run_id, "train/loss")
    assert {point.timestamp for point in history} == {round(line["time"] * 1000) for line in cell.metrics()}


def test_a_second_sync_writes_nothing(two_rows, uri):
    sync(two_rows.path, uri=uri, table_text=lambda grid: "| table |")
    before = database(uri)
    report = sync(two_rows.path, uri=uri, table_text=lambda grid: "| table |")
    assert (report.created, report.updated, report.unchanged, report.writes) == (0, 0, 5, 0)
    assert database(uri) == before


def test_lost_marks_make_no_second_run_and_no_second_point(two_rows, uri):
    sync(two_rows.path, uri=uri)
    before = {name: run.info.run_id for name, run in two_rows.runs(uri).items()}
    for marks in two_rows.path.glob("*/*/mlflow.json"):
        marks.unlink()
    report = sync(two_rows.path, uri=uri)
    assert report.created == 0
    after = two_rows.runs(uri)
    assert {name: run.info.run_id for name, run in after.items()} == before
    assert two_rows.points(uri, after[f"{1:012x}"]) == [(1, 2.0), (2, 1.5)]


def test_a_sync_killed_while_it_wrote_a_curve_writes_no_point_twice(two_rows, uri):
    sync(two_rows.path, uri=uri)
    cell = training_cell(two_rows.path, f"{1:012x}")
    # As a kill leaves it between writing points and remembering them.
    value = two_rows.marks("trainings", cell.id)
    value["written"]["curves"] = {}
    (cell.folder / "mlflow.json").write_text(json.dumps(value))
    CellRecorder(cell.folder).metrics({"validation/ndcg_at_10": 0.5}, 2)
    sync(two_rows.path, uri=uri)
    run = two_rows.runs(uri)[cell.id]
    assert two_rows.points(uri, run) == [(1, 2.0), (2, 1.5)]
    assert two_rows.points(uri, run, "validation/ndcg_at_10") == [(2, 0.5)]


def test_a_sync_that_is_killed_is_finished_by_the_next(root, uri):
    """SIGKILL at three moments of one sync; in the end every cell has one run and every curve its points once."""
    trainings = [root.train(n, {step: n / step for step in range(1, 40)}) for n in range(1, 13)]
    root.grid("killed", [(f"row{n}", 0, training, {}) for n, training in enumerate(trainings)])
    code = (
        "import sys, pathlib; from lmk_experiments.mirror import sync; sync(pathlib.Path(sys.argv[1]), uri=sys.argv[2])"
    )
    for wanted in (0, 3, 6, 9, 11):
        process = subprocess.Popen([sys.executable, "-c", code, str(root.path), uri])
        while len(list(root.path.glob("trainings/*/mlflow.json"))) <= wanted and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()
    sync(root.path, uri=uri)
    held = root.runs(uri)
    assert sorted(held) == sorted([*trainings, "grid killed"])
    for n, training in enumerate(trainings, start=1):
        assert held[training].info.status == "FINISHED"
        assert root.points(uri, held[training]) == [(step, n / step) for step in range(1, 40)]
    assert sync(root.path, uri=uri).writes == 0


def test_a_running_cell_is_followed_to_its_end(root, uri):
    training = root.train(1, {1: 2.0}, done=False)
    root.grid("live", [("cls", 0, training, {})])
    cell = training_cell(root.path, training)
    recorder = CellRecorder(cell.folder)
    with claimed(cell.folder):
        sync(root.path, uri=uri)
        assert root.runs(uri)[training].info.status == root.runs(uri)["grid live"].info.status == "RUNNING"
        recorder.metrics({"train/loss": 1.0}, 2)
        assert sync(root.path, uri=uri).updated == 1
        assert root.points(uri, root.runs(uri)[training]) == [(1, 2.0), (2, 1.0)]
    # The process is gone without a word.
    sync(root.path, uri=uri)
    assert root.runs(uri)[training].info.status == "KILLED"
    recorder.event("failed", reason="out of memory")
    sync(root.path, uri=uri)
    assert root.runs(uri)[training].info.status == root.runs(uri)["grid live"].info.status == "FAILED"
    # Resumed: two steps are told again, then one more.
    recorder.event("attempt")
    for step in (1, 2, 3):
        recorder.metrics({"train/loss": 10.0 + step}, step)
    cell.finish(3.0, metrics={}, model="model")
    sync(root.path, uri=uri)
    run = root.runs(uri)[training]
    assert run.info.status == root.runs(uri)["grid live"].info.status == "FINISHED"
    assert run.data.tags["lmk.attempts"] == "2"
    assert root.points(uri, run) == [(1, 2.0), (2, 1.0), (3, 13.0)]
    assert run.info.end_time == root.runs(uri)["grid live"].info.end_time


def test_what_mlflow_says_of_itself_is_set_right(two_rows, uri):
    sync(two_rows.path, uri=uri)
    client = open_store(two_rows.path, uri).client
    run = two_rows.runs(uri)[f"{1:012x}"]
    client.update_run(run.info.run_id, status="RUNNING")
    client.set_tag(run.info.run_id, "lmk.row", "someone's")
    assert sync(two_rows.path, uri=uri).updated == 1
    healed = two_rows.runs(uri)[f"{1:012x}"]
    assert (healed.info.status, healed.data.tags["lmk.row"]) == ("FINISHED", "cls,multicls")


def test_a_run_deleted_in_the_ui_is_made_anew(two_rows, uri):
    sync(two_rows.path, uri=uri)
    gone = two_rows.runs(uri)[f"{1:012x}"].info.run_id
    open_store(two_rows.path, uri).client.delete_run(gone)
    assert sync(two_rows.path, uri=uri).created == 1
    assert two_rows.points(uri, two_rows.runs(uri)[f"{1:012x}"]) == [(1, 2.0), (2, 1.5)]


def test_cells_that_were_not_started_have_no_run(root, uri):
    root.grid("later", [("cls", 0, f"{1:012x}", {"tiny": f"{11:012x}"})])
    report = sync(root.path, uri=uri)
    assert (report.created, report.waiting) == (0, 2)
    assert root.runs(uri) == {}


def test_two_roots_on_one_store_keep_apart(make_root, make_scores, uri):
    made = [make_root("one"), make_root("other")]
    for value, each in enumerate(made, start=1):
        training = each.train(1, {1: float(value)})
        each.grid("same", [("cls", 0, training, {"tiny": each.evaluate(11, training, make_scores(value / 7, 0.5))})])
        assert sync(each.path, uri=uri).created == 2
    for value, each in enumerate(made, start=1):
        assert sync(each.path, uri=uri).writes == 0
        assert each.points(uri, each.runs(uri)[f"{1:012x}"]) == [(1, float(value))]
        held = read_scores(each.path, load_grid(each.path, "same"), uri=uri)
        assert held[f"{11:012x}"]["Needle"]["main_score"] == value / 7


def test_a_copied_root_gets_its_own_runs_on_a_shared_store(two_rows, make_root, uri):
    sync(two_rows.path, uri=uri)
    copy = make_root("copy")
    shutil.copytree(two_rows.path, copy.path)
    assert sync(copy.path, uri=uri).created == 5
    assert sync(two_rows.path, uri=uri).writes == 0


def test_a_moved_root_keeps_the_runs_of_its_own_database(two_rows, make_root):
    sync(two_rows.path)
    assert (two_rows.path / "mlflow.db").exists()
    before = {name: run.info.run_id for name, run in two_rows.runs(None).items()}
    moved = make_root("moved")
    two_rows.path.rename(moved.path)
    assert sync(moved.path).created == 0
    assert {name: run.info.run_id for name, run in moved.runs(None).items()} == before
    assert sync(moved.path).writes == 0


def test_a_cell_of_two_grids_has_one_run_and_one_parent(root, uri):
    training = root.train(1)
    root.grid("a", [("cls", 0, training, {})])
    sync(root.path, uri=uri)
    parent = root.runs(uri)["grid a"].info.run_id
    root.grid("b", [("base", 0, training, {})])
    report = sync(root.path, ["b"], uri=uri)
    assert (report.created, report.updated) == (0, 1)
    run = root.runs(uri)[training]
    assert run.data.tags["lmk.grids"] == "a,b"
    assert run.data.tags["lmk.row"] == "cls,base"
    assert run.data.tags["mlflow.parentRunId"] == parent
    assert root.runs(uri)["grid b"].info.status == "FINISHED"
    assert sync(root.path, uri=uri).writes == 0
