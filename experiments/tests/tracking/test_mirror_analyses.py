"""An analysis in MLflow: a run of its own experiment, with its numbers, and its files as they are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from lmk_experiments.mirror import open_store, sync
from lmk_experiments.records import AnalysisRecord, CellRecorder, GridRecord, analysis_cell
from lmk_experiments.tables.mirrored import sync_with_tables

FILES = {
    "attention.png": b"\x89PNG\r\n\x1a\n\x00\xff\xfe not text",
    "attention.svg": b"<svg/>",
    "attention.csv": b"series,from\ncls,0\n",
    "attention.json": b"{}",
}


@pytest.fixture
def figure(root):
    cell = analysis_cell(root.path, f"{99:012x}")
    options = {"max_length": [512], "texts": "built:quickstart/train.jsonl"}
    cell.create("analysis", {"analysis": "attention", "series": [], "options": options, "recipe_version": 1})
    CellRecorder(cell.folder).event("attempt")
    for name, data in FILES.items():
        (cell.folder / name).write_bytes(data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    summary = [{"series": "cls", "max_length": 512, "mean_position": 1 / 3}]
    metrics = {"cls/512/mean_position": 1 / 3, "mean@64/512/mean_position": 0.5}
    cell.finish(1.0, analysis="attention", files=digests, summary=summary, metrics=metrics)
    GridRecord("fig", "A figure", [], [], analyses=[AnalysisRecord(cell.id, "look", 0, "attention", "t", [])]).save(
        root.path
    )
    return cell


def test_its_run_holds_numbers_and_files(root, figure, uri, tmp_path):
    report = sync_with_tables(root.path, ["fig"], uri=uri)
    assert (report.created, report.warnings) == (1, [])
    runs = root.runs(uri, "analysis")
    run = runs[figure.id]
    assert run.info.run_name == "look"
    assert run.info.status == "FINISHED"
    tags = {"lmk.kind": "analysis", "lmk.analysis": "attention", "lmk.row": "look", "lmk.grids": "fig"}
    assert tags.items() <= run.data.tags.items()
    assert run.data.tags["mlflow.parentRunId"] == runs["grid fig"].info.run_id
    assert run.data.metrics == {"cls/512/mean_position": 1 / 3, "mean-x40-64/512/mean_position": 0.5}
    assert run.data.params["options.max_length"] == "[512]"
    client = open_store(root.path, uri).client
    for name, data in FILES.items():
        assert Path(client.download_artifacts(run.info.run_id, name, str(tmp_path))).read_bytes() == data
    assert json.loads(root.artifact(uri, run, "summary.json"))[0]["mean_position"] == 1 / 3
    assert client.get_experiment(run.info.experiment_id).name == "lmk-analyze"
    # A second sync writes nothing; a file that changed is written again.
    assert sync(root.path, uri=uri).writes == 0
    marks = root.marks("analyses", figure.id)
    assert set(marks["written"]["artifacts"]) == {*FILES, "cell.json", "summary.json"}


def test_a_file_that_is_gone_is_a_warning(root, figure, uri):
    (figure.folder / "attention.svg").unlink()
    report = sync(root.path, uri=uri)
    assert len(report.warnings) == 1
    assert "attention.svg" in report.warnings[0]
    assert root.runs(uri, "analysis")[figure.id].info.status == "FINISHED"
