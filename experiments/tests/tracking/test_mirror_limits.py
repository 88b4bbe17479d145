from __future__ import annotations

import json

import pytest

from lmk_experiments.mirror import StoreError, read_scores, sync
from lmk_experiments.mirror.wanted import MAX_SCORES
from lmk_experiments.records import evaluation_cell, load_grid, training_cell


def test_scores_come_back_to_the_bit(two_rows, uri):
    sync(two_rows.path, uri=uri)
    grid = load_grid(two_rows.path, "small")
    expected = {f"{n:012x}": evaluation_cell(two_rows.path, f"{n:012x}").done()["scores"] for n in (11, 12, 13)}
    assert read_scores(two_rows.path, grid, uri=uri) == expected


def test_more_scores_than_metrics_come_back_too(root, uri):
    many = {f"task{n}": {"main_score": n / 7, "z": n / 3, "ndcg_at_10": n / 11} for n in range(40)}
    training = root.train(1)
    grid = root.grid("wide", [("cls", 0, training, {"tiny": root.evaluate(11, training, many)})])
    sync(root.path, uri=uri)
    metrics = root.runs(uri, "evaluation")[f"{11:012x}"].data.metrics
    assert len(metrics) == MAX_SCORES
    assert sum(name.endswith("/main_score") for name in metrics) == 40
    assert not any(name.endswith("/z") for name in metrics)
    assert read_scores(root.path, grid, uri=uri) == {f"{11:012x}": many}


def test_reading_scores_says_nothing(root, uri, capfd):
    many = {f"task{n}": {"main_score": n / 7, "z": n / 3, "ndcg_at_10": n / 11} for n in range(40)}
    training = root.train(1)
    grid = root.grid("wide", [("cls", 0, training, {"tiny": root.evaluate(11, training, many)})])
    sync(root.path, uri=uri)
    capfd.readouterr()
    assert read_scores(root.path, grid, uri=uri) == {f"{11:012x}": many}
    assert capfd.readouterr() == ("", "")


def test_large_configs_fit_and_stay_whole_in_the_artifact(root, uri):
    config = {"section": {f"key{n}": n for n in range(300)}, "long": "x" * 7000, "empty": ""}
    training = root.train(1, config=config)
    root.grid("big", [("cls", 0, training, {})])
    sync(root.path, uri=uri)
    run = root.runs(uri)[training]
    assert len(run.data.params) == 302
    assert len(run.data.params["long"]) == 500
    assert json.loads(root.artifact(uri, run, "cell.json"))["config"] == config
    assert sync(root.path, uri=uri).writes == 0


def test_long_curves_go_over_in_several_batches(root, uri):
    curve = {step: 1 / step for step in range(1, 2301)}
    training = root.train(1)
    lines = [{"step": step, "time": 1000.0 + step, "values": {"train/loss": loss}} for step, loss in curve.items()]
    file = training_cell(root.path, training).folder / "metrics.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 2301, "ti')
    root.grid("long", [("cls", 0, training, {})])
    sync(root.path, uri=uri)
    assert root.points(uri, root.runs(uri)[training]) == sorted(curve.items())


def test_the_table_is_an_artifact_of_both_parents(two_rows, uri):
    sync(two_rows.path, uri=uri, table_text=lambda grid: f"table of {grid.name}")
    for kind in ("training", "evaluation"):
        assert two_rows.artifact(uri, two_rows.runs(uri, kind)["grid small"], "table.md") == "table of small"
    assert sync(two_rows.path, uri=uri, table_text=lambda grid: "newer").writes == 4
    assert two_rows.artifact(uri, two_rows.runs(uri)["grid small"], "table.md") == "newer"


def test_a_table_that_cannot_be_made_is_a_warning(two_rows, uri):
    def broken(grid):
        raise ValueError("no such column")

    report = sync(two_rows.path, uri=uri, table_text=broken)
    assert report.created == 5
    assert report.warnings == ["no table of grid small: no such column"]


def test_refused_artifacts_are_warnings_and_go_over_later(two_rows, tmp_path):
    own = f"sqlite:///{tmp_path}/refusing/mlflow.db"
    folder = tmp_path / "refusing" / "mlflow-artifacts"
    folder.parent.mkdir()
    folder.write_text("not a folder")
    report = sync(two_rows.path, uri=own)
    assert len(report.warnings) == 2
    assert "cell.json of run cls was not taken by the artifact store" in report.warnings[0]
    assert report.warnings[1] == "the artifact store has refused 3 files in a row, so no more are tried now"
    assert two_rows.points(own, two_rows.runs(own)[f"{1:012x}"]) == [(1, 2.0), (2, 1.5)]
    folder.unlink()
    report = sync(two_rows.path, uri=own)
    # Those of the five cells, and of the grid its scores and the tag that says so.
    assert (report.writes, report.warnings) == (10, [])


def test_a_cell_with_a_broken_file_does_not_stop_the_others(two_rows, uri):
    (two_rows.path / "trainings" / f"{2:012x}" / "cell.json").write_text("{")
    report = sync(two_rows.path, uri=uri)
    assert report.created == 4
    assert f"{2:012x}/cell.json:1: not valid JSON" in report.warnings[0]


def test_unknown_grids_are_named_with_the_known_ones(two_rows, uri):
    with pytest.raises(ValueError, match=r"no grid 'smal' was run under .*; it holds: small"):
        sync(two_rows.path, ["smal"], uri=uri)


def test_a_server_that_is_down_says_what_to_do(two_rows, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(StoreError, match=r"cannot use the MLflow store http://127.0.0.1:9: .*Nothing is lost"):
        sync(two_rows.path, uri="http://me:secret@127.0.0.1:9")
    assert not list(two_rows.path.glob("*/*/mlflow.json"))


def test_a_table_may_be_several_files(two_rows, uri):
    sync(two_rows.path, uri=uri, table_text=lambda grid: {"table.md": "a", "table.html": "<b>a</b>"})
    parent = two_rows.runs(uri)["grid small"]
    assert two_rows.artifact(uri, parent, "table.html") == "<b>a</b>"
    assert sync(two_rows.path, uri=uri, table_text=lambda grid: {"table.md": "a", "table.html": "<b>a</b>"}).writes == 0
    # Two parents, two files and a tag each.
    assert sync(two_rows.path, uri=uri, table_text=lambda grid: {"table.md": "a", "table.html": "b"}).writes == 6


def test_a_short_cell_does_not_end_before_it_began(two_rows, uri):
    sync(two_rows.path, uri=uri)
    done = evaluation_cell(two_rows.path, f"{11:012x}").done()
    info = two_rows.runs(uri, "evaluation")[f"{11:012x}"].info
    assert info.end_time - info.start_time == pytest.approx(done["seconds"] * 1000, abs=1)
