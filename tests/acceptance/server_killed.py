"""Whether a training notices what becomes of its tracking server: steps per second with it up, killed, silent, failing.

    python tests/acceptance/server_killed.py [--rounds 2] [--times 2] [--seconds 15]

One small training mirrors itself, every second, to a server that is changed under it: some times ``up`` and ``silent``
(takes connections, never answers) in turn, then ``killed`` (nobody listens) and ``failing`` (answers 500 to everything)
in turn, then it is started again. Each stretch is compared with the ``up`` of the same number, so that a machine whose
other work comes and goes matters less: steps per second, and steps per second of the training's own processor time,
which others' work touches less. A second
training has no server from its first step to its last. Then the server is started once more, and one `lmk sync` must
complete both runs and a second write nothing. Six minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from mlflow_server import Server, mlflow_server

from lmk_experiments.mirror import open_store, sync
from lmk_experiments.mirror.read import runs_of_root
from lmk_experiments.records import Cell, GridRecord, RowRecord, TrainingRecord, training_cell

STATES = ("killed", "silent", "failing")
SETTLE_SECONDS = 3.0
"""Of each stretch, not counted: the server is on its way up or down, and uses the same cores as the training."""
EVERY = 10
"""Steps between two points of the curve."""
WORKER = """
import sys
from pathlib import Path
import torch
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell

folder, EVERY = Path(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 2, 128, batch_first=True), 2)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

def work(recorder):
    step = 0
    while not (folder / "stop").exists():
        step += 1
        loss = model(torch.randn(8, 32, 64)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % EVERY == 0:
            recorder.metrics({"train/loss": loss.item()}, step)
    return {"metrics": {}, "model": "model"}

work_on(Cell(folder), work)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--times", type=int, default=2, help="that each state comes in a round")
    parser.add_argument("--seconds", type=float, default=15.0, help="of one stretch")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with mlflow_server(f"sqlite:///{place}/server.db", place / "artifacts") as server:
            root = make_root(place / "runs", 2)
            draw = random.Random(arguments.seed)
            stretches = changing(root, server, arguments.rounds, arguments.times, arguments.seconds, draw)
            report(root, stretches)
            server.kill()
            with training(root, 1, server):  # no server for the whole run
                time.sleep(arguments.seconds)
            server.start()
            complete(root, server)


class Stretch(NamedTuple):
    """The number-th time of a state of the server: from when to when, and the training's processor seconds within."""

    number: int
    state: str
    began: float
    ended: float
    used: float


def used_by(process: psutil.Process) -> float:
    """Its processor time, in seconds; not that of what it has started."""
    times = process.cpu_times()
    return times.user + times.system


def changing(root: Path, server: Server, rounds: int, times: int, seconds: float, draw: random.Random) -> list[Stretch]:
    """Change the server under one training."""
    stretches = []
    with training(root, 0, server) as process:
        wait_for_the_mirror(root)  # which takes seconds to begin, and would notice no change of the server meanwhile
        for first in range(0, rounds * times, times):
            for states in (("up", "silent"), ("killed", "failing")):
                if states == ("killed", "failing"):
                    server.kill()
                for number in range(first, first + times):
                    for state in draw.sample(states, 2):
                        with held(server, state):
                            if state == "up":
                                wait_for_the_mirror(root)
                            time.sleep(SETTLE_SECONDS)
                            began, used = time.time(), used_by(process)
                            time.sleep(seconds)
                            stretches.append(Stretch(number, state, began, time.time(), used_by(process) - used))
            server.start()
    return stretches


def wait_for_the_mirror(root: Path) -> None:
    """Until the training has a run and knows that the server is up: in the base of all ratios it mirrors itself."""
    deadline, marks = time.monotonic() + 600, training_cell(root, f"{1:012x}").folder / "mlflow.json"
    while True:
        text = (root / "log-0").read_text()
        if marks.exists() and text.count("cannot be used") <= text.count("answers again"):
            return
        assert time.monotonic() < deadline, text
        time.sleep(0.2)


@contextmanager
def held(server: Server, state: str) -> Generator[None]:
    """The server in this state; one that nobody listens for is down already."""
    failing = http.server.ThreadingHTTPServer(("127.0.0.1", server.port), Failing) if state == "failing" else None
    if state == "silent":
        server.signal(SIGSTOP)
    if failing is not None:
        threading.Thread(target=failing.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        if failing is not None:
            failing.shutdown()
            failing.server_close()
        if state == "silent":
            server.signal(SIGCONT)


class Failing(http.server.BaseHTTPRequestHandler):
    """Answers 500 to everything."""

    def do_GET(self) -> None:
        self.send_error(500)

    do_POST = do_PUT = do_GET  # noqa: N815 - the names that the base class looks for

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def training(root: Path, number: int, server: Server) -> Generator[psutil.Process]:
    """A training that runs while this lasts, and ends well."""
    cell = training_cell(root, f"{number + 1:012x}")
    variables = {"LMK_STORE": server.url, "LMK_LIVE_SECONDS": "1"}
    with (root / f"log-{number}").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(cell.folder), str(EVERY)], stderr=log, env={**os.environ, **variables}
        )
    try:
        while not (cell.folder / "metrics.jsonl").exists():
            assert process.poll() is None, (root / f"log-{number}").read_text()
            time.sleep(0.2)
        yield psutil.Process(process.pid)
        (cell.folder / "stop").touch()
        began = time.monotonic()
        assert process.wait(120) == 0
        print(f"training {number + 1} ended {time.monotonic() - began:.1f} s after it was told to")
    finally:
        process.kill()
    said = [line for line in (root / f"log-{number}").read_text().splitlines() if line.startswith("lmk:")]
    print("\n".join([f"its log says, beside its steps, {len(said)} lines:", *(f"  {line}" for line in said)]))


def report(root: Path, stretches: list[Stretch]) -> None:
    """Print the steps per second of each state, as ratios to the ``up`` of the same number, and the longest pause."""
    lines = (training_cell(root, f"{1:012x}").folder / "metrics.jsonl").read_text().splitlines()
    times = [json.loads(line)["time"] for line in lines]
    within = {one: [time for time in times if one.began <= time < one.ended] for one in stretches}
    for what, seconds in (("second", lambda one: one.ended - one.began), ("processor second", lambda one: one.used)):
        speed = {(one.number, one.state): EVERY * len(within[one]) / seconds(one) for one in stretches}
        numbers = sorted({number for number, _ in speed})
        up = [speed[number, "up"] for number in numbers]
        print(
            f"steps per {what}, up: {statistics.median(up):.1f}, {min(up):.1f} to {max(up):.1f} in {len(up)} stretches"
        )
        for state in STATES:
            ratios = [speed[number, state] / speed[number, "up"] for number in numbers]
            print(f"  {state}: {statistics.median(ratios):.3f} of it, from {min(ratios):.3f} to {max(ratios):.3f}")
    for state in ("up", *STATES):
        pauses = [after - before for one in stretches if one.state == state for before, after in pairwise(within[one])]
        print(f"longest time for {EVERY} steps, {state}: {max(pauses):.2f} s")


def make_root(root: Path, cells: int) -> Path:
    """A root with one grid of trainings."""
    ids = [f"{number:012x}" for number in range(1, cells + 1)]
    for identity in ids:
        training_cell(root, identity).create("training", {"seed": 0})
    rows = [RowRecord(f"row{identity}", 0, identity, {}, False, {}) for identity in ids]
    trainings = [TrainingRecord(identity, f"row{identity}", 0) for identity in ids]
    GridRecord("killed", "A grid", trainings, rows, None).save(root)
    return root


def complete(root: Path, server: Server) -> None:
    """One sync completes every run, and a second one writes nothing."""
    print(f"lmk sync: {sync(root, uri=server.url)}; again: {sync(root, uri=server.url).writes} writes")
    store = open_store(root, server.url)
    for run in runs_of_root(store, "training").values():
        assert run.info.status == "FINISHED", run.info
        if "lmk.cell" in run.data.tags:
            steps = [point.step for point in store.client.get_metric_history(run.info.run_id, "train/loss")]
            told = len(Cell(root / "trainings" / run.data.tags["lmk.cell"]).metrics())
            assert sorted(steps) == [EVERY * one for one in range(1, told + 1)], "the curve has a gap, or a step twice"
            print(f"{run.info.run_name}: {run.info.status}, {told} points, each once")


if __name__ == "__main__":
    main()
