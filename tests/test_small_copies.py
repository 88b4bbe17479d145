"""A small copy of each of the paper's grids, from plan to table: its own rows and views, a toy model, a few steps.

The copies run in one process, through the very functions that jobs call.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lmk_experiments.builders import build
from lmk_experiments.cli.main import app
from lmk_experiments.configs import shipped_folder, shipped_names
from lmk_experiments.grids import Plan, load_grid_file, make_plan
from lmk_experiments.jobs.evaluate import run_evaluations
from lmk_experiments.jobs.fan import write_cells
from lmk_experiments.jobs.train import run_training
from lmk_experiments.records import evaluation_cell, pretraining_cell, training_cell
from lmk_experiments.tables.load import load_table

DOCUMENTS = [
    "the cat sat on the mat",
    "a list of numbers is sorted",
    "files are read line by line",
    "a key opens a door",
]
QUERIES = ["cat", "sort numbers", "read a file", "open door"]


def small_preset(name: str) -> dict[str, Any]:
    value = yaml.safe_load((shipped_folder("presets") / f"{name}.yaml").read_text(encoding="utf-8"))
    if name == "retromae":
        value["data"] |= {"train": ["../texts.jsonl"], "max_length": 32}
    else:
        lengths = {"query_max_length": 32, "passage_max_length": 32}
        value["data"] |= {"train": ["built:quickstart-tiny/train.jsonl"], "negatives": 1, **lengths}
    value["optim"] |= {"steps": 2, "batch_size": 4, "warmup_steps": 1}
    return {**value, "precision": "fp32", "runtime": {"accelerator": "cpu", "threads": 1, "checkpoint_every": None}}


def small_grid(name: str, suite: Path) -> dict[str, Any]:
    """The grid with its rows, views and pre-trainings."""
    value = yaml.safe_load((shipped_folder("grids") / f"{name}.yaml").read_text(encoding="utf-8"))
    evaluate = value["evaluate"]
    task = {"name": "small", "folder": str(suite)}
    evaluate["suites"] = [{"name": one, "tasks": [task]} for one in evaluate["suites"]]
    evaluate["max_length"] = {"default": 64, "longembed": 96}
    return {key: held for key, held in value.items() if key not in ("assumed", "collection")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small presets and models under the names of the large ones, a small suite, and a root with a toy model."""
    folder = tmp_path_factory.mktemp("small")
    built = build("quickstart-tiny", folder / "runs")
    for kind in ("presets", "models", "suite/qrels"):
        (folder / kind).mkdir(parents=True)
    for name in shipped_names("presets"):
        if name != "quickstart":
            (folder / f"presets/{name}.yaml").write_text(yaml.safe_dump(small_preset(name)))
    for name in shipped_names("models"):
        shutil.copytree(built / "model", folder / f"weights/{name}")
        (folder / f"weights/{name}/name.txt").write_text(name)  # other content, so another model
        (folder / f"models/{name}.yaml").write_text(f"model: {{path: ../weights/{name}}}\n")
    texts = [json.dumps({"text": f"{text}, and {other}"}) for text in DOCUMENTS for other in DOCUMENTS]
    (folder / "texts.jsonl").write_text("\n".join(texts) + "\n")
    documents = [json.dumps({"_id": f"d{i}", "text": text}) for i, text in enumerate(DOCUMENTS)]
    queries = [json.dumps({"_id": f"q{i}", "text": text}) for i, text in enumerate(QUERIES)]
    judged = ["query-id\tcorpus-id\tscore", *(f"q{i}\td{i}\t1" for i in range(len(QUERIES)))]
    (folder / "suite/corpus.jsonl").write_text("\n".join(documents) + "\n")
    (folder / "suite/queries.jsonl").write_text("\n".join(queries) + "\n")
    (folder / "suite/qrels/test.tsv").write_text("\n".join(judged) + "\n")
    return folder


def run(plan: Plan, root: Path, table: dict[str, Any] | None) -> None:
    record = write_cells(plan, root, table)
    for first in record.pretrainings:
        run_training(str(pretraining_cell(root, first.id).folder))
    for training in record.trainings:
        run_training(str(training_cell(root, training.id).folder))
    evaluations = [identity for row in record.rows for identity in row.evaluations.values()]
    run_evaluations(os.pathsep.join(str(evaluation_cell(root, identity).folder) for identity in evaluations))


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"table{number}" for number in range(1, 8)])
def test_a_small_copy_runs_to_its_table(name: str, folder: Path) -> None:
    grid = small_grid(name, folder / "suite")
    grid["base"] = [f"./{base}.yaml" for base in grid["base"]]
    for row in grid["train"]:
        row["base"] = [f"./{base}.yaml" for base in row.get("base", [])]
        if "init" in row:
            row["init"] = f"./presets/{row['init']}.yaml"
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    root = folder / "runs"
    loaded = load_grid_file(str(folder / f"{name}.yaml"))
    plan = make_plan(loaded, root)
    large = make_plan(load_grid_file(name), root)
    rows = [row.row for row in large.rows]
    assert [row.row for row in plan.rows] == rows
    assert len(plan.pretrainings) == len(large.pretrainings)
    run(plan, root, load_table(loaded, plan))
    for training in plan.trainings:
        started = [event for event in training_cell(root, str(training.id)).events() if event["event"] == "initialized"]
        if training.pretraining is None:
            assert not started
        else:
            assert started[0]["pretraining"] == training.pretraining.id
            assert started[0]["weights_loaded"] == started[0]["weights"] > 10
    done = CliRunner().invoke(app, ["table", name, "--from", "records", "--root", str(root)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "planned" not in done.output
    if plan.table is None:
        for row in rows:
            assert row in done.output.replace("\\", ""), done.output
