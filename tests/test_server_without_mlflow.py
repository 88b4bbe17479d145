"""A server that has everything already is asked over REST, without importing MLflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow_server import Server

from lmk_experiments.mirror.plain import ServerReader, server
from lmk_experiments.records import (
    CellRecorder,
    GridRecord,
    RowRecord,
    TrainingRecord,
    evaluation_cell,
    training_cell,
)

IMPORTED = (
    "import sys\nfrom lmk_experiments.cli.main import main\n"
    "try:\n    main()\nfinally:\n    print('mlflow' in sys.modules, file=sys.stderr)\n"
)


def lmk(*words: str, root: Path, uri: str) -> tuple[str, bool]:
    """What a fresh `lmk` prints, and whether it imported MLflow."""
    environment = {**os.environ, "LMK_ROOT": str(root), "LMK_STORE": uri, "MLFLOW_HTTP_REQUEST_TIMEOUT": "600"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.strip().splitlines()[-1] == "True"


def make_root(root: Path) -> None:
    """One row: a training with a curve, read on one suite."""
    training, reading = training_cell(root, "1" * 12), evaluation_cell(root, "2" * 12)
    training.create("training", {"optim": {"steps": 2}, "seed": 0})
    CellRecorder(training.folder).event("attempt")
    CellRecorder(training.folder).metrics({"train/loss": 0.5}, 1)
    training.finish(1.0, metrics={}, model="model")
    suite = {"name": "tiny", "title": None, "tasks": [{"name": "Needle"}]}
    reading.create(
        "evaluation", {"training": training.id, "pooling": {"kind": "cls"}, "max_length": 64, "suite": suite}
    )
    CellRecorder(reading.folder).event("attempt")
    reading.finish(1.0, scores={"Needle": {"main_score": 1 / 3}})
    rows = [RowRecord("cls", 0, training.id, {}, True, {"tiny": reading.id})]
    GridRecord("one", "One", [TrainingRecord(training.id, "cls", 0)], rows, None).save(root)


def test_a_server_with_everything_in_it_is_read_without_mlflow(tracking_server: Server, tmp_path: Path) -> None:
    root, url = tmp_path / "runs", tracking_server.url
    make_root(root)
    said, imported = lmk("sync", root=root, uri=url)
    assert imported
    assert "2 created" in said
    printed, imported = lmk("table", "one", root=root, uri=url)
    assert not imported
    assert "numbers from MLflow" in printed
    assert "33.3" in printed
    CellRecorder(training_cell(root, "1" * 12).folder).metrics({"train/loss": 0.25}, 2)
    said, imported = lmk("sync", root=root, uri=url)
    assert imported
    assert "0 created, 1 updated, 1 unchanged" in said
    said, imported = lmk("sync", root=root, uri=url)
    assert not imported
    assert "2 unchanged" in said


@pytest.mark.parametrize("foretold", ["rightly", "wrongly", "not at all"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_asked_for_ahead_are_the_server_s_own(
    tracking_server: Server, monkeypatch: pytest.MonkeyPatch, size: int, foretold: str
) -> None:
    from mlflow import MlflowClient

    client, name = MlflowClient(tracking_server.url), f"pages {size} {foretold}"
    experiment = client.create_experiment(name)
    made = [client.create_run(experiment, start_time=number, tags={"set": "one"}).info.run_id for number in range(1, 7)]
    client.create_run(experiment, start_time=2, tags={"set": "two"})
    monkeypatch.setattr(server, "_RUNS_A_PAGE", size)
    own = server._ahead
    if foretold == "wrongly":
        monkeypatch.setattr(server, "_ahead", lambda token, size: own(token, size + 1))
    elif foretold == "not at all":
        monkeypatch.setattr(server, "_ahead", lambda token, _: [token])
    reader = ServerReader(tracking_server.url)
    assert reader.experiments([name, "none"]) == {name: experiment}
    assert list(reader.runs_with(experiment, {"set": "one"})) == made


def test_tokens_are_foretold_as_mlflow_makes_them() -> None:
    from mlflow.utils.search_utils import SearchUtils

    made = [SearchUtils.create_page_token(offset).decode() for offset in (200, 400, 600, 800)]
    assert server._ahead(made[0], 200) == made
    assert server._ahead("e30=", 200) == ["e30="]
