"""From one grid file to its table: the product's main path, with real training in real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_experiments.records import Cell, evaluation_cell, load_grid, training_cell


def attempts(root: Path) -> dict[str, int]:
    """How often each cell under ``root`` was started."""
    cells = [*root.glob("trainings/*"), *root.glob("evaluations/*")]
    return {cell.name: sum(event["event"] == "attempt" for event in Cell(cell).events()) for cell in cells}


def test_a_grid_comes_back_as_its_table(finished: Path) -> None:
    printed = (finished / "first.txt").read_text()
    for row in ("untrained", "cls", "multicls", "lmk-var-8", "lmk-var-16"):
        assert re.search(rf"^\| {row}\b", printed, re.MULTILINE), printed
    assert "planned" not in printed
    assert "Where to look next" in printed


def test_every_cell_is_done_and_was_started_once(finished: Path) -> None:
    root = finished / "runs"
    record = load_grid(root, "mini")
    cells = [training_cell(root, training.id) for training in record.trainings]
    cells += [evaluation_cell(root, identity) for row in record.rows for identity in row.evaluations.values()]
    assert len(cells) == 3 + 5 * 2
    assert {cell.state().name for cell in cells} == {"done"}
    assert set(attempts(root).values()) == {1}


def test_training_cells_hold_curves_and_a_model(finished: Path) -> None:
    root = finished / "runs"
    training = next(training for training in load_grid(root, "mini").trainings if training.row == "cls")
    cell = training_cell(root, training.id)
    assert [line["step"] for line in cell.metrics()] == [2, 4, 6]
    values = cell.metrics()[-1]["values"]
    assert {"train/loss", "train/learning_rate", "validation/ndcg_at_10"} <= set(values)
    done = cell.done()
    assert done is not None
    assert (cell.folder / done["model"] / "model.safetensors").is_file()


def test_groups_of_queries_have_their_own_scores(finished: Path) -> None:
    root = finished / "runs"
    row = next(row for row in load_grid(root, "mini").rows if row.row == "lmk-var-8")
    done = evaluation_cell(root, row.evaluations["long"]).done()
    assert done is not None
    scores = done["scores"]["long-512"]
    assert {"ndcg_at_10", "precision_at_1", "recall_at_10"} <= set(scores)
    assert any(name.startswith("ndcg_at_10[quarter=") for name in scores)


def test_a_second_run_starts_nothing(finished: Path, lmk: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    before = attempts(finished / "runs")
    again = lmk("run", "mini.yaml", cwd=finished)
    assert again.returncode == 0, again.stderr
    assert "everything is done already" in again.stdout
    assert attempts(finished / "runs") == before


def test_status_and_plan_agree(finished: Path, lmk: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    status = lmk("status", "mini", cwd=finished)
    assert status.stdout.startswith("mini: 13 of 13 cells done"), status.stdout + status.stderr
    plan = json.loads(lmk("plan", "mini.yaml", "--json", cwd=finished).stdout)
    assert plan["counts"] == {
        "trainings": 3,
        "trainings_done": 3,
        "pretrainings": 0,
        "rows": 5,
        "distinct_readings": 5,
        "evaluations": 10,
        "evaluations_done": 10,
        "analyses": 0,
        "analyses_done": 0,
    }


def test_a_killed_run_goes_on_and_repeats_no_finished_cell(
    tmp_path: Path, mini: Callable[..., Path], lmk: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    grid = mini(tmp_path)
    command = [str(Path(sys.executable).parent / "lmk"), "run", str(grid)]
    with (tmp_path / "killed.txt").open("w") as output:
        running = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT)
    root = tmp_path / "runs"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        started = [name for name, count in attempts(root).items() if count] if root.exists() else []
        done = [path.parent.name for path in root.glob("*/*/DONE.json")]
        if done and set(started) - set(done):
            break
        assert running.poll() is None, (tmp_path / "killed.txt").read_text()
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    finished_before = {path.parent.name for path in root.glob("*/*/DONE.json")}
    assert finished_before
    again = lmk("run", grid, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    counts = attempts(root)
    assert {name: counts[name] for name in finished_before} == dict.fromkeys(finished_before, 1)
    assert "13 of 13 cells done" in lmk("status", "mini", cwd=tmp_path).stdout


def test_a_faulty_row_is_told_by_file_and_line(
    tmp_path: Path, mini: Callable[..., Path], lmk: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"query": "q", "pos": ["p"], "neg": ["n"]}\n{"query": "q", "pos": "p"}\n')
    rows = [{"row": "cls", "pooling": {"kind": "cls"}, "data": {"train": ["rows.jsonl"]}}]
    grid = mini(tmp_path, train=rows, evaluate={**_evaluate(), "views": [{"of": "cls"}]})
    done = lmk("run", grid, cwd=tmp_path)
    assert done.returncode == 2
    assert "rows.jsonl:2: 'pos' must be a list" in done.stderr
    assert "Traceback" not in done.stderr
    assert "started" not in done.stdout, "a faulty line is told before anything starts"


def test_a_failed_training_skips_its_evaluation_and_shows_in_the_table(
    tmp_path: Path, mini: Callable[..., Path], lmk: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    rows = [{"row": "cls", "pooling": {"kind": "cls"}, "optim": {"learning_rate": 1e30, "gradient_clip": None}}]
    grid = mini(tmp_path, train=rows, evaluate={**_evaluate(), "views": [{"of": "cls"}]})
    done = lmk("run", grid, cwd=tmp_path)
    assert done.returncode == 1
    assert re.search(r"train cls: failed: .*NonFiniteError: the loss is nan at step 2 of 6", done.stderr)
    assert "Traceback" not in done.stderr
    assert "evaluate cls: skipped" in done.stderr
    assert "failed" in done.stdout, "the table shows the state, never a zero"


def _evaluate() -> dict[str, object]:
    suite = {"name": "short", "tasks": [{"name": "functions", "folder": "built:quickstart-tiny/eval/short"}]}
    return {"suites": [suite], "max_length": 64}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seedz": [1]}, r"mini\.yaml:\d+: seedz: unknown key; did you mean 'seeds'\?"),
        ({"train": [{"row": "a", "pooling": {"kind": "clss"}}]}, r"mini\.yaml:\d+: pooling\.kind: .*latent_attention"),
        (
            {"evaluate": {**_evaluate(), "views": [{"of": "nope"}]}},
            r"mini\.yaml:\d+: .*'nope'.* untrained, cls, lmk-var",
        ),
        ({"train": [{"row": "a"}, {"row": "a"}]}, r"mini\.yaml:\d+: train\[1\]\.row: row 'a' stands here twice"),
        ({"base": ["missing.yaml"]}, r"mini\.yaml:\d+: base\[0\]: no such file"),
    ],
    ids=["unknown key", "unknown pooling", "view of no row", "row twice", "missing file"],
)
def test_a_broken_grid_is_told_by_file_line_and_key(
    change: dict[str, object],
    told: str,
    tmp_path: Path,
    mini: Callable[..., Path],
    lmk: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    grid = mini(tmp_path, **change)
    done = lmk("run", grid, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(told, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in lmk("run", grid, "--debug", cwd=tmp_path).stderr
