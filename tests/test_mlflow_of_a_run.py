"""What a finished grid looks like in MLflow, asked through MLflow's own client."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lmk_experiments.records import evaluation_cell, load_grid, training_cell
from lmk_experiments.tables import disagreements, grid_table


@pytest.fixture(scope="module")
def client(finished: Path) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{finished / 'runs' / 'mlflow.db'}")


def runs(client: Any, experiment: str) -> list[Any]:
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    return client.search_runs([found.experiment_id])


def test_a_parent_a_grid_and_a_child_a_cell(client: Any, finished: Path) -> None:
    record = load_grid(finished / "runs", "mini")
    for experiment, cells in (("lmk-train", 3), ("lmk-evaluate", 10)):
        every = runs(client, experiment)
        parents = [run for run in every if "mlflow.parentRunId" not in run.data.tags]
        children = [run for run in every if run not in parents]
        assert [run.data.tags["lmk.grid"] for run in parents] == ["mini"]
        assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
        assert len({run.data.tags["lmk.cell"] for run in children}) == len(children) == cells
        assert {run.info.status for run in every} == {"FINISHED"}
        artifacts = {file.path for file in client.list_artifacts(parents[0].info.run_id)}
        assert "table.md" in artifacts
    rows = {run.data.tags["lmk.row"] for run in runs(client, "lmk-evaluate") if "lmk.row" in run.data.tags}
    assert rows == {row.row for row in record.rows}


def test_params_and_curves_of_a_training(client: Any, finished: Path) -> None:
    training = next(training for training in load_grid(finished / "runs", "mini").trainings if training.row == "cls")
    run = next(run for run in runs(client, "lmk-train") if run.data.tags.get("lmk.cell") == training.id)
    assert run.data.params["optim.steps"] == "6"
    assert run.data.params["pooling.kind"] == "cls"
    curve = client.get_metric_history(run.info.run_id, "train/loss")
    recorded = training_cell(finished / "runs", training.id).metrics()
    assert [(point.step, point.value) for point in sorted(curve, key=lambda point: point.step)] == [
        (line["step"], line["values"]["train/loss"]) for line in recorded
    ]


def test_scores_are_those_of_the_records(client: Any, finished: Path) -> None:
    for run in runs(client, "lmk-evaluate"):
        if "lmk.cell" not in run.data.tags:
            continue
        done = evaluation_cell(finished / "runs", run.data.tags["lmk.cell"]).done()
        assert done is not None
        (task, scores), *_ = done["scores"].items()
        value = next(value for name, value in run.data.metrics.items() if name.endswith(f"{task}/ndcg_at_10"))
        assert value == scores["ndcg_at_10"]


def test_the_table_from_mlflow_and_from_the_records_agree_to_the_digit(
    finished: Path, lmk: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    root = finished / "runs"
    assert disagreements(grid_table(root, "mini", origin="mlflow"), grid_table(root, "mini", origin="records")) == []
    mirrored = lmk("table", "mini", cwd=finished).stdout.splitlines()
    recorded = lmk("table", "mini", "--from", "records", cwd=finished).stdout.splitlines()
    assert [line for line in mirrored if line.startswith("|")] == [line for line in recorded if line.startswith("|")]
    assert any(line.startswith("|") for line in mirrored)


def test_a_store_that_cannot_be_used_is_said_and_the_records_are_read(
    finished: Path, lmk: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = lmk("table", "mini", "--store", "sqlite:////proc/no/such.db", cwd=finished)
    assert done.returncode == 0
    assert "warning: MLflow cannot be used" in done.stderr
    assert "| cls" in done.stdout


def test_the_ui_ends_with_its_command(finished: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).parent / "lmk"), "ui", "--port", str(port)]
    with subprocess.Popen(command, cwd=finished, start_new_session=True) as ui:
        try:
            assert waits(lambda: listens(port))
            ui.terminate()
            ui.wait(60)
            assert waits(lambda: not listens(port))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ui.pid, signal.SIGKILL)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def waits(look: Callable[[], bool], seconds: float = 90) -> bool:
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
