"""One training that is killed again and again at random moments: its losses and weights are the undisturbed one's.

    python tests/acceptance/kills.py [--kills 20] [--ranks 1 2] [--seed 0]

Each start gets one of kill -9, SIGTERM and SIGUSR2, sent to all of its processes (as a scheduler does) or to one rank,
some steps or moments after it has begun; it reads with 0 or 2 workers. Minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "packages" / "train" / "tests"))
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

PATIENCE_SECONDS = 1800
KILL, TERM, USR2 = signal.SIGKILL, signal.SIGTERM, signal.SIGUSR2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=240, help="a faster machine does more of them a kill")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LMK_CACHE"] = f"{folder}/cache"
        for ranks in arguments.ranks:
            many_kills(ranks, arguments.kills, arguments.steps, random.Random(arguments.seed), Path(folder))


def many_kills(size: int, kills: int, steps: int, draw: random.Random, folder: Path) -> None:
    """Trains without a disturbance, and with many of them, and compares."""
    import torch
    from killed_trainings import Start, begin, ended, start
    from safetensors.torch import load_file

    config = training(folder, steps)
    whole, run = folder / f"whole-{size}", folder / f"run-{size}"
    began = time.monotonic()
    assert start(size, config, whole, Start(), PATIENCE_SECONDS) == [0] * size
    plain, began = time.monotonic() - began, time.monotonic()
    done: collections.Counter[str] = collections.Counter()
    while sum(done.values()) < kills:
        one = Start(workers=draw.choice([0, 2]))
        number, to = draw.choice([KILL, TERM, USR2]), draw.choice([None, draw.randrange(size)])
        ranks = begin(size, config, run, one)
        if wait_for(run, ranks, draw) and hit(ranks, number, to):
            done[number.name] += 1
        codes = ended(ranks)
        assert codes != [0] * size, "it has ended before it was killed often enough: give it more steps"
        print(
            f"{size} ranks, {one.workers} workers, {number.name} to {'all' if to is None else to}: {codes}", flush=True
        )
    assert start(size, config, run, Start(workers=2), PATIENCE_SECONDS) == [0] * size
    curves = [sorted({(line["step"], line["values"]["train/loss"]) for line in heard(where)}) for where in (whole, run)]
    assert curves[0] == curves[1], "the losses differ"
    ours, theirs = (load_file(where / "model" / "model.safetensors") for where in (run, whole))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items()), "the weights differ"
    lines = [json.loads(line) for line in (run / "heard.jsonl").read_text().splitlines()]
    events = collections.Counter(line["event"] for line in lines if "event" in line)
    print(
        f"{size} ranks: {dict(done)} in {time.monotonic() - began:.0f} s (undisturbed: {plain:.0f} s); {dict(events)}; "
        f"{len(curves[0])} losses and {len(ours)} weights equal bit for bit",
        flush=True,
    )


def training(folder: Path, steps: int) -> Any:
    from conftest import make_rows, make_tiny_model, write_rows
    from lmk_train.config import TrainConfig

    rows, model = folder / "rows.jsonl", folder / "tiny"
    if not rows.exists():
        write_rows(rows, make_rows(203))
        model.mkdir()
        make_tiny_model(model)
    return TrainConfig.model_validate(
        {
            "model": {"path": str(model)},
            "pooling": {"kind": "landmark", "granularity": [2, 4, 8]},
            "data": {"train": [str(rows)], "negatives": 2, "query_max_length": 16, "passage_max_length": 32},
            "optim": {"steps": steps, "batch_size": 8, "learning_rate": 1e-3, "warmup_steps": 10},
            "loss": {"temperature": 0.1},
            "runtime": {"accelerator": "cpu", "log_every": 1, "checkpoint_every": 5, "chunk_tokens": 128},
        }
    )


def heard(folder: Path) -> list[dict[str, Any]]:
    path = folder / "heard.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [line for text in lines if text.endswith("\n") and "step" in (line := json.loads(text)) and "values" in line]


def wait_for(folder: Path, ranks: list[Any], draw: random.Random) -> bool:
    """Until some steps more were done, and a moment longer; whether all ranks are still there."""
    target = len(heard(folder)) + draw.choice([0, 1, 2, 3, 5, 8, 12])
    while len(heard(folder)) < target and all(rank.is_alive() for rank in ranks):
        time.sleep(0.005)
    time.sleep(draw.random() * draw.choice([0.01, 0.1, 0.5]))
    return all(rank.is_alive() for rank in ranks)


def hit(ranks: list[Any], number: signal.Signals, to: int | None) -> bool:
    """Signals one rank, or all processes of all; a rank that has lost another ends by itself."""
    import psutil

    parents = [psutil.Process(rank.pid) for rank in ranks]
    targets = parents if to is None else [parents[to]]
    try:
        if to is None and number != KILL:
            targets = [one for parent in parents for one in (*parent.children(recursive=True), parent)]
        for one in targets:
            one.send_signal(number)
    except psutil.NoSuchProcess:
        return one not in targets[:1]
    return True


if __name__ == "__main__":
    main()
