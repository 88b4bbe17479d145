"""A small root, and `lmk` in a process of its own that tells whether it imported MLflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def check_reading(root: Path, uri: str) -> None:
    """Fill ``root`` and the empty store, and see that MLflow is imported where something is to be written only."""
    make_root(root)
    said, imported = lmk("sync", root=root, uri=uri)
    assert imported
    assert "2 created" in said
    printed, imported = lmk("table", "one", root=root, uri=uri)
    assert not imported
    assert "numbers from MLflow" in printed
    assert "33.3" in printed
    CellRecorder(training_cell(root, "1" * 12).folder).metrics({"train/loss": 0.25}, 2)
    said, imported = lmk("sync", root=root, uri=uri)
    assert imported
    assert "0 created, 1 updated, 1 unchanged" in said
    said, imported = lmk("sync", root=root, uri=uri)
    assert not imported
    assert "2 unchanged" in said
