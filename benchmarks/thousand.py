"""Plan, status and table of a grid of 1,000 cells, beside asking MLflow for the same runs.

Run: ``python benchmarks/thousand.py [--repetitions N] [--json FILE]``. The records of 500 trainings and 500
evaluations are written as `lmk run` leaves them, and `lmk sync` mirrors them to MLflow. The peer is what people who
track a sweep in MLflow write today: `mlflow.search_runs`, which gives a DataFrame, and pandas. It reads the SQLite
store: which runs are finished and which are missing, and the mean over the seeds of every row. `lmk table` reads that
store too, namely the file with all scores that the grid's own run has; `plan`, `status` and `table --from records` read
the cells' own files. Both are whole commands, since that is what a person waits for; both give the same counts and the
same means (checked).
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from suite.measuring import Report, interleaved, note, options
from suite.result import Result

SEEDS = 10
TASKS = ("functions", "methods")
GRID = """
grid: thousand
title: A grid of many cells
base: [presets/quickstart, tiny.yaml]
seeds: [{seeds}]
train:
  - {{row: "cls-{{s}}", pooling: {{kind: cls}}, optim: {{steps: "{{s}}", warmup_steps: 0}}, for: {{s: [{steps}]}}}}
evaluate:
  suites:
    - name: short
      tasks: [{tasks}]
  max_length: 64
"""
TINY = """
model: {path: built:quickstart-tiny/model}
data: {train: [built:quickstart-tiny/train.jsonl], validation: built:quickstart-tiny/validation.jsonl}
"""
LMK = [sys.executable, "-m", "lmk_experiments.cli.main"]
PEER = [sys.executable, __file__, "--here"]
FROM_STORE = "both read the MLflow store: the peer every run, ours one file of the grid's, as all of it is there"
FROM_FILES = "reads the cells' files, where the peer reads the MLflow store"
SEARCH = "mlflow.search_runs and pandas"


def main() -> None:
    parser = options(__doc__, repetitions=3)
    parser.add_argument("--here", nargs=2, metavar=("WHAT", "STORE"), help="be the peer: `missing` or `table`")
    given = parser.parse_args()
    if given.here:
        peer(*given.here)
        return
    rows = 4 if given.quick else 50
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "runs"
        grid = Path(name) / "thousand.yaml"
        tasks = ", ".join(f"{{name: {task}, folder: built:quickstart-tiny/eval/short}}" for task in TASKS)
        seeds, steps = (", ".join(map(str, range(1, count + 1))) for count in (SEEDS, rows))
        grid.write_text(GRID.format(seeds=seeds, steps=steps, tasks=tasks))
        (Path(name) / "tiny.yaml").write_text(TINY)
        note("writing the records")
        cells = fill(grid, root)
        note("lmk sync")
        sync = [*LMK, "sync", "thousand", "--root", str(root), "--store", _store(root)]
        subprocess.run(sync, check=True, capture_output=True)
        compare(Report(given.json), grid, root, cells, 1 if given.quick else given.repetitions)


def fill(grid: Path, root: Path) -> int:
    """Everything of the grid done, with made-up curves and scores; the number of its cells."""
    from lmk_experiments.cli.run_grid import prepare
    from lmk_experiments.records import CellRecorder, evaluation_cell, training_cell

    _, record = prepare(str(grid), root, ())
    draw = random.Random(0)
    for training in record.trainings:
        cell = training_cell(root, training.id)
        recorder = CellRecorder(cell.folder)
        recorder.event("attempt")
        for step in (10, 20):
            recorder.metrics({"train/loss": draw.random()}, step)
        cell.finish(2.5, metrics={}, model="model")
    for row in record.rows:
        for identity in row.evaluations.values():
            cell = evaluation_cell(root, identity)
            CellRecorder(cell.folder).event("attempt")
            scores = {task: draw.random() for task in TASKS}
            cell.finish(1.0, scores={task: {"main_score": one, "ndcg_at_10": one} for task, one in scores.items()})
    return len(record.trainings) + sum(len(row.evaluations) for row in record.rows)


def _store(root: Path) -> str:
    """Named, since a user's own store may be in the environment."""
    return f"sqlite:///{root.resolve()}/mlflow.db"


def compare(report: Report, grid: Path, root: Path, cells: int, repetitions: int) -> None:
    """All commands in turn."""
    store = _store(root)
    where, quiet = ["--root", str(root)], {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    commands = {
        "lmk plan": [*LMK, "plan", str(grid), *where],
        "lmk status": [*LMK, "status", "thousand", *where],
        "lmk table --from records": [*LMK, "table", "thousand", "--from", "records", "--format", "json", *where],
        "lmk table": [*LMK, "table", "thousand", "--format", "json", *where, "--store", store],
        "missing": [*PEER, "missing", store],
        "table": [*PEER, "table", store],
        "bare": [sys.executable, "-c", "pass"],
    }
    said: dict[str, str] = {}

    def run(name: str) -> None:
        said[name] = subprocess.run(commands[name], check=True, capture_output=True, text=True, env=quiet).stdout

    note("plan, status, table")
    taken = interleaved({name: lambda name=name: run(name) for name in commands}, repetitions)
    finished = json.loads(said["missing"])["finished"]
    assert finished == cells, f"the peer finds {finished} of {cells} runs finished"
    plan = json.loads(subprocess.run([*commands["lmk plan"], "--json"], check=True, capture_output=True).stdout)
    done = plan["counts"]["trainings_done"] + plan["counts"]["evaluations_done"]
    assert done == cells, f"lmk plan finds {done} of {cells} cells done"
    shown = subprocess.run([*commands["lmk status"], "--json"], check=True, capture_output=True).stdout
    states = [cell["state"] for cell in json.loads(shown)["cells"]]
    assert states.count("done") == cells, f"lmk status finds {states.count('done')} of {cells} cells done"
    theirs = json.loads(said["table"])
    for name in ("lmk table --from records", "lmk table"):
        ours = [(row, task, mean) for row, means in means_of(said[name]).items() for task, mean in means]
        assert len(ours) == len(theirs) * len(TASKS), f"{name}: {len(ours)} means"
        apart = max(abs(mean - theirs[row][task]) for row, task, mean in ours)
        assert apart < 1e-9, f"{name}: a mean differs by {apart}"
    limit: dict[str, Any] = {"limit": statistics.median(taken["bare"].processor), "limit_of": "interpreter"}
    for name, other, same, remark in (
        ("lmk plan", "missing", f"{cells} found done by both", FROM_FILES),
        ("lmk status", "missing", f"{cells} found done by both", FROM_FILES),
        ("lmk table --from records", "table", "means equal", FROM_FILES),
        ("lmk table", "table", "means equal", FROM_STORE),
    ):
        case, sides = f"{cells:,} cells: {name}", (taken[name].side(name), taken[other].side(SEARCH))
        report.add(Result("records", case, *sides, "s", same=same, remark=remark, headline=True, **limit))


def means_of(text: str) -> dict[str, list[tuple[str, float]]]:
    """Row to task to mean score, of a table as JSON."""
    (table,) = json.loads(text)["tables"]
    return {
        row["row"]: [
            (column["task"], cell["value"])
            for column, cell in zip(table["columns"], row["cells"], strict=True)
            if column["task"] in TASKS
        ]
        for row in table["rows"]
    }


def peer(what: str, store: str) -> None:
    """What people write today."""
    warnings.filterwarnings("ignore")
    import mlflow

    mlflow.set_tracking_uri(store)
    if what == "missing":
        runs = mlflow.search_runs(search_all_experiments=True, max_results=100_000)
        runs = runs[runs["tags.lmk.cell"].notna()]
        finished = runs[runs["status"] == "FINISHED"]
        missing = runs[runs["status"] != "FINISHED"][["tags.lmk.row", "tags.lmk.seed", "status"]]
        print(json.dumps({"finished": len(finished), "missing": missing.to_dict("records")}))
        return
    kind = "tags.`lmk.kind` = 'evaluation'"
    runs = mlflow.search_runs(search_all_experiments=True, filter_string=kind, max_results=100_000)
    columns = {f"metrics.short/{task}/ndcg_at_10": task for task in TASKS}
    table = runs.groupby("tags.lmk.row")[list(columns)].mean().mul(100).rename(columns=columns)
    print(json.dumps(table.to_dict("index")))


if __name__ == "__main__":
    main()
