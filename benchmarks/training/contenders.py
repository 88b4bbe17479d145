"""What is measured: a trainer with its settings, in a process of its own, on the rows of one spread."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from training.data import Spread, write_rows
from transformers import AutoTokenizer

from lmk_core import Embedder, PoolingConfig, PoolingTokenizer
from lmk_train import TrainConfig
from lmk_train.data.module import ContrastiveData
from lmk_train.throughput import ModelFlops

HERE = Path(__file__).parent
SCRIPTS = {
    "lmk_train": HERE / "run_lmk.py",
    "FlagEmbedding": HERE / "run_flag_embedding.py",
    "Sentence Transformers": HERE / "run_sentence_transformers.py",
}
LEARNING_RATE, TEMPERATURE, SEED = 1e-4, 0.02, 42
CLOCKS = {"seconds": "processor", "wall": "clock"}
Found = dict[str, Any]
"""What a run has measured."""


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
    trained = spread.batch_size * spread.steps
    # The peers' loader is a batch ahead: the first step tokenizes two, and the last one none where no batch is left.
    # Where the first step is not counted there is a batch more, so that each counted step tokenizes one.
    spare = spread.batch_size if spread.counted < spread.steps else 0
    write_rows(folder / "all.jsonl", spread, words, model, trained + spare)
    lines = (folder / "all.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "rows.jsonl").write_text("\n".join(lines[:trained]) + "\n", encoding="utf-8")
    config = config_of(spread, folder, model)
    config["data"]["cache"] = str(folder / "cache")
    tokenizer = PoolingTokenizer(AutoTokenizer.from_pretrained(model), PoolingConfig("mean"), spread.passage_max_length)
    data = ContrastiveData(TrainConfig.model_validate(config), tokenizer)
    order = data.order()
    assert order is not None
    batches = [[key.row for key in batch] for batch in order]
    ordered = [lines[row] for batch in batches for row in batch] + lines[trained:]
    (folder / "ordered.jsonl").write_text("\n".join(ordered) + "\n", encoding="utf-8")
    counted = list(data.batches())[-spread.counted :]
    flops = ModelFlops(Embedder.from_pretrained(model, "mean", device="cpu").module)
    asked = [flops.training(batch.queries) + flops.training(batch.passages) for batch in counted]
    return Task(spread, folder, model, statistics.mean(batch.tokens for batch in counted), statistics.mean(asked))


def run(task: Task, contender: Contender, steps: int | None = None) -> Found | None:
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
    found |= {name: [seconds + charged for seconds in found[key][first:]] for name, key in CLOCKS.items()}
    found["charged"] = charged
    return found


def _environment(contender: Contender) -> dict[str, str]:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    own = {} if contender.trainer == "lmk_train" else {"PYTHONPATH": ""}
    return {**os.environ, **offline, **threads, **own, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}
