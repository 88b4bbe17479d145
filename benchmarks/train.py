"""A training step of `lmk_train` beside FlagEmbedding's and Sentence Transformers' trainers, on one CPU thread.

Run: ``python benchmarks/train.py [--spreads short long] [--repetitions N] [--reference FOLDER] [--json FILE]``.

All train the same small ModernBERT on the same rows in the same batches, with the same loss (InfoNCE over the
passages of the batch, hard negatives included), AdamW, learning rate and clipping, in float32 without dropout; each
in a process of its own, and the peers in environments of their own (``--environments``, made where they are missing).
Each peer runs at its defaults and at its best setting (`BEST`, found by ``--search``). All run in turn, round after
round. Seconds are those of the processor, which other programs disturb least, from the end of a step to the end of
the next, so that tokenizing is in them; `lmk_train` tokenizes once for all epochs, and here all of that is charged to
the one epoch.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from encode import SHAPES
from suite.measuring import CACHE, Report, note, options
from suite.result import Missing, Result, Side
from training.data import SPREADS, Spread, make_model, words_of, write_rows
from training.environments import PACKAGES, NotInstalledError, python_of
from transformers import AutoTokenizer

from lmk_core import Embedder, PoolingConfig, PoolingTokenizer
from lmk_train import TrainConfig
from lmk_train.data.module import ContrastiveData
from lmk_train.throughput import ModelFlops

HERE = Path(__file__).parent / "training"
SCRIPTS = {
    "lmk_train": HERE / "run_lmk.py",
    "FlagEmbedding": HERE / "run_flag_embedding.py",
    "Sentence Transformers": HERE / "run_sentence_transformers.py",
}
SEARCHED: dict[str, list[dict[str, int]]] = {
    "FlagEmbedding": [{"sub_batch_size": size} for size in (1, 2, 4, 8, 16, 32)],
    "Sentence Transformers": [
        *({"mini_batch_num_tokens": tokens} for tokens in (256, 512, 1024, 2048, 4096, 8192)),
        *({"mini_batch_size": size} for size in (1, 4, 32)),
    ],
}
"""The settings that each peer offers against padding, without another order of the rows."""
BEST: dict[str, dict[str, dict[str, int]]] = {
    "short": {"FlagEmbedding": {"sub_batch_size": 4}, "Sentence Transformers": {"mini_batch_num_tokens": 512}},
    "long": {"FlagEmbedding": {"sub_batch_size": 1}, "Sentence Transformers": {"mini_batch_num_tokens": 1024}},
}
"""The fastest of them on each spread, as ``--search`` finds them."""
LEARNING_RATE, TEMPERATURE, SEED = 1e-4, 0.02, 42
SAME_LOSS = 1e-4
Found = dict[str, Any]
"""What a run has measured."""
_CLOCKS = {"seconds": "processor", "wall": "clock"}


@dataclass(frozen=True)
class Contender:
    trainer: str
    python: Path
    options: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        chosen = ", ".join(f"{key}={value}" for key, value in self.options.items())
        return self.trainer if self.trainer == "lmk_train" else f"{self.trainer}, {chosen or 'defaults'}"


@dataclass(frozen=True)
class Task:
    """One spread's rows on the disk."""

    spread: Spread
    folder: Path
    model: Path
    tokens: float
    """Of a measured step, without padding."""
    flops: float
    """What a measured step asks for."""


def config_of(spread: Spread, folder: Path, model: Path) -> dict[str, Any]:
    return {
        "model": {"path": str(model)},
        "pooling": {"kind": "mean"},
        "data": {
            "train": [str(folder / "rows.jsonl")],
            "negatives": spread.negatives,
            "query_max_length": spread.query_max_length,
            "passage_max_length": spread.passage_max_length,
        },
        "optim": {
            "steps": spread.steps,
            "batch_size": spread.batch_size,
            "learning_rate": LEARNING_RATE,
            "warmup_steps": 0,
            "gradient_clip": 1.0,
        },
        "loss": {"temperature": TEMPERATURE},
        "runtime": {"accelerator": "cpu", "threads": 1, "log_every": 1, "checkpoint_every": None},
        "seed": SEED,
    }


def prepare(spread: Spread, folder: Path, model: Path, words: list[str]) -> Task:
    """Writes the rows, and for the peers once more in the order in which `lmk_train` draws them."""
    folder.mkdir()
    write_rows(folder / "rows.jsonl", spread, words, model, spread.batch_size * spread.steps)
    config = config_of(spread, folder, model)
    config["data"]["cache"] = str(folder / "cache")
    tokenizer = PoolingTokenizer(AutoTokenizer.from_pretrained(model), PoolingConfig("mean"), spread.passage_max_length)
    data = ContrastiveData(TrainConfig.model_validate(config), tokenizer)
    order = data.order()
    assert order is not None
    batches = [[key.row for key in batch] for batch in order]
    lines = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    ordered = [lines[row] for batch in batches for row in batch]
    (folder / "ordered.jsonl").write_text("\n".join(ordered) + "\n", encoding="utf-8")
    counted = list(data.batches())[-spread.counted :]
    flops = ModelFlops(Embedder.from_pretrained(model, "mean", device="cpu").module)
    asked = [flops.training(batch.queries) + flops.training(batch.passages) for batch in counted]
    return Task(spread, folder, model, statistics.mean(batch.tokens for batch in counted), statistics.mean(asked))


def run(task: Task, contender: Contender, steps: int | None = None) -> dict[str, Any] | None:
    """Trains in a process of its own and gives what it measured; None, and the end of what it said, where it failed."""
    spread = task.spread if steps is None else replace(task.spread, steps=steps)
    with tempfile.TemporaryDirectory(dir=task.folder) as name:
        folder = Path(name)
        config = config_of(spread, task.folder, task.model)
        config["data"]["cache"] = str(folder / "cache")
        wanted = {
            "config": config,
            "model": str(task.model),
            "rows": str(task.folder / "ordered.jsonl"),
            "out": str(folder / "out"),
            "cache": str(folder / "cache"),
            "steps": spread.steps,
            "batch_size": spread.batch_size,
            "negatives": spread.negatives,
            "query_max_length": spread.query_max_length,
            "passage_max_length": spread.passage_max_length,
            "learning_rate": LEARNING_RATE,
            "temperature": TEMPERATURE,
            "seed": SEED,
            "options": contender.options,
        }
        file = folder / "settings.json"
        file.write_text(json.dumps(wanted))
        command = [str(contender.python), str(SCRIPTS[contender.trainer]), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(contender))
    lines = [line for line in done.stdout.splitlines() if line.startswith("MEASURED ")]
    if done.returncode or not lines:
        print(f"{contender.name}: exit code {done.returncode}\n{done.stderr[-1500:]}", file=sys.stderr)
        return None
    found = json.loads(lines[-1].removeprefix("MEASURED "))
    charged = found.get("tokenizing", 0.0) / task.spread.steps
    first = len(found["processor"]) - task.spread.counted if steps is None else 1
    found |= {name: [seconds + charged for seconds in found[key][first:]] for name, key in _CLOCKS.items()}
    found["charged"] = charged
    return found


def _environment(contender: Contender) -> dict[str, str]:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    own = {} if contender.trainer == "lmk_train" else {"PYTHONPATH": ""}
    return {**os.environ, **offline, **threads, **own, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}


def search(task: Task, peer: str, python: Path) -> None:
    """Each setting measured on one step after a first one."""
    for setting in SEARCHED[peer]:
        found = run(task, Contender(peer, python, setting), steps=2)
        if found is not None:
            print(f"{task.spread.name}: {peer}, {setting}: {found['seconds'][-1]:.2f} s a step", flush=True)


def compare(task: Task, contenders: list[Contender], rounds: int, report: Report) -> None:
    """All in turn, and another one first in each round."""
    found: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    failed: dict[str, int] = {}
    began, limit = time.monotonic(), float(os.environ.get("BENCH_SECONDS", "inf"))
    for number in range(rounds):
        spent = time.monotonic() - began
        if number and spent * (number + 1) / number > 0.9 * limit:
            note(f"{number} rounds of {rounds}: no time for another one")
            break
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            # What takes most of the time is measured in every other round.
            seldom = task.spread.name == "long" and contender.trainer != "lmk_train" and not contender.options
            if contender.name in failed or (seldom and number % 2):
                continue
            note(f"{task.spread.name}, round {number + 1} of {rounds}: {contender.name}")
            measured = run(task, contender)
            if measured is None:
                failed[contender.name] = number
            else:
                found[contender.name].append({**measured, "round": number})
    for contender in contenders[1:]:
        if contender.name in failed or contenders[0].name in failed:
            why = f"failed in round {failed.get(contender.name, 0) + 1}; the log has its last words"
            report.add(Missing(f"train {task.spread.name}", contender.name, why))
        else:
            theirs = found[contender.name]
            rounds_of = {one["round"] for one in theirs}
            add(task, contender, [one for one in found["lmk_train"] if one["round"] in rounds_of], theirs, report)


def add(task: Task, contender: Contender, ours: list[Found], peer: list[Found], report: Report) -> None:
    """Time and memory beside one contender, if the losses are the same."""
    losses = list(zip(ours[0]["losses"], peer[0]["losses"], strict=True))
    apart = max(abs(own - other) / abs(own) for own, other in losses)
    if not apart < SAME_LOSS:
        why = f"not comparable: losses {peer[0]['losses']}, and ours {ours[0]['losses']}"
        report.add(Missing(f"train {task.spread.name}", contender.name, why))
        return
    rate = statistics.median(one["matrix_rate"] for one in ours)

    def side(name: str, runs: list[dict[str, Any]], key: str) -> Side:
        processed = round(task.tokens / (1 - runs[0]["padding"]))
        if key == "memory":
            return Side(name, tuple(one["memory"] / 1e6 for one in runs))
        seconds, wall = (tuple(value for one in runs for value in one[clock]) for clock in _CLOCKS)
        return Side(name, seconds, wall, processed)

    spread = task.spread
    step = f"{spread.batch_size} x (1 + {1 + spread.negatives}) texts, {task.tokens:,.0f} tokens"
    share = statistics.median(one["charged"] / statistics.mean(one["seconds"]) for one in ours)
    for key, unit in (("seconds", "s"), ("memory", "MB")):
        timed: dict[str, Any] = {"needed": round(task.tokens), "limit_of": "matrix products"}
        timed["limit"] = task.flops / rate
        conditions = {"matrix_rate": rate, "shapes": SHAPES, "flops": task.flops, "tokenizing_share": share}
        report.add(
            Result(
                f"train {spread.name}",
                f"{'a step' if unit == 's' else 'memory'}, {step}",
                side("lmk_train", ours, key),
                side(contender.name, peer, key),
                unit,
                same=f"losses to {apart:.0e}",
                remark=_remark(contender, unit),
                headline=bool(contender.options) and unit == "s",
                **({"conditions": conditions} | (timed if unit == "s" else {})),
            )
        )


def _remark(contender: Contender, unit: str) -> str:
    if contender.options and unit == "MB":
        setting = contender.name.partition(", ")[2]
        return f"the peer takes the batch in parts ({setting}), as ours does with `runtime.chunk_tokens`, not set here"
    return ""


def main() -> None:
    parser = options(__doc__, repetitions=2)
    parser.add_argument("--spreads", nargs="+", choices=list(SPREADS), default=list(SPREADS))
    parser.add_argument("--reference", type=Path, help="folder whose ir/*/corpus.jsonl hold real texts; else sources")
    parser.add_argument("--environments", type=Path, default=CACHE / "benchmark-environments")
    parser.add_argument("--only-environments", action="store_true", help="make the peers' environments, and end")
    parser.add_argument("--no-install", action="store_true", help="compare with the environments that are there")
    parser.add_argument("--search", action="store_true", help="print each peer's seconds by setting, and end")
    given = parser.parse_args()
    report, pythons = Report(given.json), {}
    for peer in PACKAGES:
        try:
            pythons[peer] = python_of(peer, given.environments, install=not given.no_install)
        except NotInstalledError as error:
            for spread in ["peers"] if given.only_environments else given.spreads:
                report.add(Missing(f"train {spread}", peer, str(error)))
    if given.only_environments:
        return
    with tempfile.TemporaryDirectory() as name:
        words = words_of(given.reference)
        make_model(Path(name) / "model", words)
        for spread in given.spreads:
            chosen = SPREADS[spread]
            if given.quick:
                chosen = replace(chosen, batch_size=2, negatives=1, passage_max_length=256)
            task = prepare(chosen, Path(name) / spread, Path(name) / "model", words)
            if given.search:
                for peer, python in pythons.items():
                    search(task, peer, python)
                continue
            contenders = [Contender("lmk_train", Path(sys.executable))]
            for peer, python in pythons.items():
                contenders += [Contender(peer, python), Contender(peer, python, BEST[spread][peer])]
            compare(task, contenders, 1 if given.quick else given.repetitions, report)


if __name__ == "__main__":
    main()
