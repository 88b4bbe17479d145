"""A thousand runs: how long a sync, a sync with nothing new, and a table take on each kind of store.

    python tests/acceptance/thousand_runs.py FOLDER [--stores sqlite,postgresql,server] [--trainings N]

Makes a root of 100 finished trainings, each read on 9 suites (1,000 cells), and measures in fresh processes, wall clock
and CPU, `lmk sync`, `lmk sync` again and `lmk table`, on SQLite, on PostgreSQL directly, and on `mlflow server` on
PostgreSQL through http. Then 12 processes at once write further roots into a fresh database, 1,000 runs in all.
Goals on a quiet machine: 120 s, 5 s, 2 s, and no error. PostgreSQL is one that this starts itself (Debian: postgresql).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from mlflow_server import mlflow_server  # noqa: E402
from postgres import Postgres, postgres  # noqa: E402

from lmk_experiments.records import (  # noqa: E402
    CellRecorder,
    GridRecord,
    RowRecord,
    TrainingRecord,
    evaluation_cell,
    training_cell,
)

SUITES, TASKS, POINTS = 9, 10, 40
LMK = [sys.executable, "-m", "lmk_experiments.cli.main"]


def make_root(root: Path, trainings: int, suites: int = SUITES, first: int = 0) -> int:
    """A grid of finished cells; returns how many."""
    preset = HERE.parent.parent / "experiments" / "presets" / "quickstart.yaml"
    config = yaml.safe_load(preset.read_text(encoding="utf-8"))
    rows, records = [], []
    for number in range(first, first + trainings):
        cell = training_cell(root, f"{number:012x}")
        cell.create("training", {**config, "seed": number})
        recorder = CellRecorder(cell.folder)
        recorder.event("attempt")
        for step in range(POINTS):
            recorder.metrics({"train/loss": 1 / (step + 1), "train/learning_rate": 1e-4}, step)
        cell.finish(10.0, metrics={}, model="model")
        records.append(TrainingRecord(cell.id, f"row-{number}", 0))
        readings = {}
        for suite in range(suites):
            name = f"suite{suite}"
            names = [f"task{task}" for task in range(TASKS)]
            reading = evaluation_cell(root, f"{number * 100 + suite:012x}")
            reading.create(
                "evaluation",
                {
                    "training": cell.id,
                    "pooling": {"kind": "landmark", "granularity": 32},
                    "max_length": 512,
                    "suite": {"name": name, "title": name, "tasks": [{"name": task} for task in names]},
                },
            )
            CellRecorder(reading.folder).event("attempt")
            scores = {task: {"main_score": number / 1000, "ndcg_at_10": number / 1000} for task in names}
            reading.finish(1.0, scores=scores)
            readings[name] = reading.id
        rows.append(RowRecord(f"row-{number}", 0, cell.id, {}, False, readings))
    GridRecord(f"grid{first}", "A grid", records, rows, None).save(root)
    return trainings * (1 + suites)


def run(what: str, *words: str, environment: dict[str, str]) -> None:
    """Run `lmk` and print how long it took."""
    used, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [*LMK, *words], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    wall, now = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    last = (done.stdout.strip().splitlines() or [""])[-1][:90]
    print(f"  {what:<24} {wall:7.1f} s wall  {cpu:6.1f} s CPU  exit {done.returncode}  {last}", flush=True)
    if done.returncode or "warning" in done.stderr:
        print(done.stderr[-2000:], flush=True)


@contextlib.contextmanager
def store(kind: str, folder: Path, cluster: Postgres, name: str) -> Generator[str]:
    """The address of an empty store."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / name}.db"
    elif kind == "postgresql":
        yield cluster.database(name)
    else:
        uri = cluster.database(name).replace("postgresql://", "postgresql+psycopg://")
        with mlflow_server(uri, folder / f"{name}-artifacts") as server:
            before = _cpu(server.process.pid if server.process else 0)
            yield server.url
            after = _cpu(server.process.pid if server.process else 0)
            print(f"  {'(the server itself)':<24} {'':7}         {after - before:6.1f} s CPU", flush=True)


def _cpu(pid: int) -> float:
    import psutil

    process = psutil.Process(pid)
    every = [process, *process.children(recursive=True)]
    return sum(one.cpu_times().user + one.cpu_times().system for one in every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stores", default="sqlite,postgresql,server")
    parser.add_argument("--trainings", type=int, default=100)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--at-once", type=int, default=1000, metavar="RUNS", help="of all workers together")
    parser.add_argument(
        "--patience", type=int, default=30, metavar="SECONDS", help="for an answer of the server; more where it starves"
    )
    asked = parser.parse_args()
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(asked.patience)
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with postgres() as cluster:
        for kind in asked.stores.split(","):
            root = folder / f"root-{kind}"
            count = make_root(root, asked.trainings)
            print(f"{kind}: {count} cells", flush=True)
            with store(kind, folder, cluster, f"one_{kind}") as uri:
                environment = {"LMK_STORE": uri, "LMK_ROOT": str(root)}
                run("lmk sync", "sync", environment=environment)
                run("lmk sync, nothing new", "sync", environment=environment)
                run("lmk table", "table", "grid0", environment=environment)
            if asked.workers:
                _at_once(kind, folder, cluster, asked.workers, asked.at_once // asked.workers + 1)


def _at_once(kind: str, folder: Path, cluster: Postgres, workers: int, cells: int) -> None:
    roots = [folder / f"{kind}-worker{number}" for number in range(workers)]
    made = sum(make_root(root, cells, suites=0, first=1000 * number) for number, root in enumerate(roots))
    with store(kind, folder, cluster, f"many_{kind}") as uri:
        begun = time.monotonic()
        started = [
            subprocess.Popen(
                [*LMK, "sync"],
                env={**os.environ, "LMK_STORE": uri, "LMK_ROOT": str(root)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for root in roots
        ]
        ended = [process.communicate() for process in started]
        wall = time.monotonic() - begun
        wrong = [error for (_, error), one in zip(ended, started, strict=True) if one.returncode]
        print(
            f"  {workers} workers at once, fresh: {made} runs in {wall:.1f} s, {len(wrong)} with an error", flush=True
        )
        for error in wrong:
            print(error[-1500:], flush=True)


if __name__ == "__main__":
    main()
