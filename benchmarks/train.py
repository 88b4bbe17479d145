"""A training step of `lmk_train` beside FlagEmbedding's and Sentence Transformers' trainers, on one CPU thread.

Run: ``python benchmarks/train.py [--short] [--rounds N] [--spreads short long] [--reference FOLDER]``.

All train the same small ModernBERT on the same rows in the same batches, with the same loss (InfoNCE over the passages
of the batch, hard negatives included), AdamW, learning rate and clipping, in float32 without dropout; each in a process
of its own, and the peers in environments of their own (``--environments``, made where they are missing). Each peer runs
at its defaults and at its best setting, which is searched for first. Then all run in turn, round after round. Seconds
are those of the processor, which other programs disturb least, from the end of a step to the end of the next, so that
tokenizing is in them; `lmk_train` tokenizes once for all epochs, and here all of that is charged to the one epoch. A
ratio is of seconds in the same round; above 1, `lmk_train` is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from training.data import SPREADS, Spread, make_model, words_of, write_rows
from training.environments import PACKAGES, python_of
from transformers import AutoTokenizer

from lmk_core import PoolingConfig, PoolingTokenizer
from lmk_train import TrainConfig
from lmk_train.data.module import ContrastiveData

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
LEARNING_RATE, TEMPERATURE, SEED = 1e-4, 0.02, 42
SAME_LOSS = 1e-4


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
    tokens: int
    """Of all rows, without padding."""

    @property
    def pairs(self) -> int:
        """Pairs of a query and a passage of its own in a step."""
        return self.spread.batch_size * (1 + self.spread.negatives)


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
    return Task(spread, folder, model, sum(batch.tokens for batch in data.batches()))


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
    found["seconds"] = statistics.mean(found["processor"][1:]) + charged  # the first step also warms up
    return found


def _environment(contender: Contender) -> dict[str, str]:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    own = {} if contender.trainer == "lmk_train" else {"PYTHONPATH": ""}
    return {**os.environ, **offline, **threads, **own, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}


def best_setting(task: Task, peer: str, python: Path, *, short: bool) -> Contender | None:
    """The fastest of the searched settings, each measured on one step after a first one."""
    seconds: dict[int, float] = {}
    settings = SEARCHED[peer][2:4] if short else SEARCHED[peer]
    for place, options in enumerate(settings):
        print(f"  searching: {peer}, {options} ({place + 1} of {len(settings)})", file=sys.stderr, flush=True)
        found = run(task, Contender(peer, python, options), steps=2)
        if found is not None:
            seconds[place] = found["seconds"]
    if not seconds:
        return None
    tried = ", ".join(f"{settings[place]}: {value:.2f} s" for place, value in seconds.items())
    print(f"  {peer}, searched on a step: {tried}", flush=True)
    return Contender(peer, python, settings[min(seconds, key=seconds.__getitem__)])


def compare(task: Task, contenders: list[Contender], rounds: int) -> None:
    found: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        # Another one is first in each round.
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            print(f"  round {number + 1} of {rounds}: {contender.name}", file=sys.stderr, flush=True)
            measured = run(task, contender)
            if measured is not None:
                print(f"    {measured['seconds']:.2f} s a step", file=sys.stderr, flush=True)
                found[contender.name].append(measured)
    ours = found[contenders[0].name]
    tokens = task.tokens / task.spread.steps
    print("| trainer | s a step | pairs/s | real tokens/s | padding | memory | times (least to most) | loss differs |")
    print("|---|---|---|---|---|---|---|---|")
    for name, runs in found.items():
        if not runs:
            print(f"| {name} | failed | | | | | | |")
            continue
        seconds = statistics.median(one["seconds"] for one in runs)
        ratios = [one["seconds"] / own["seconds"] for own, one in zip(ours, runs, strict=False)]
        times = "" if runs is ours else f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        pairs = zip(ours[0]["losses"], runs[0]["losses"], strict=True)
        apart = max(abs(own - other) / abs(own) for own, other in pairs)
        memory = statistics.median(one["memory"] for one in runs) / 1e6
        print(
            f"| {name} | {seconds:.2f} | {task.pairs / seconds:.1f} | {tokens / seconds:,.0f} "
            f"| {runs[0]['padding']:.1%} | {memory:,.0f} MB | {times} | {'' if runs is ours else f'{apart:.0e}'} |"
        )
        if apart > SAME_LOSS:
            print(f"{name}: losses {runs[0]['losses']}, and here {ours[0]['losses']}", file=sys.stderr)
    share = statistics.median(own["tokenizing"] / task.spread.steps / own["seconds"] for own in ours)
    print(f"\nOf lmk_train's seconds, {share:.1%} are tokenizing, which later epochs do not have.\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="one round and two settings a peer, to try it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spreads", nargs="+", choices=list(SPREADS), default=list(SPREADS))
    parser.add_argument("--reference", type=Path, help="folder whose ir/*/corpus.jsonl hold real texts; else sources")
    cache = Path(os.environ.get("LMK_CACHE", Path.home() / ".cache" / "lmk"))
    parser.add_argument("--environments", type=Path, default=cache / "benchmark-environments")
    for peer, settings in SEARCHED.items():
        for key in {key: None for options in settings for key in options}:
            parser.add_argument(f"--{key.replace('_', '-')}", type=int, help=f"{peer}'s best setting, not searched for")
    chosen = parser.parse_args()
    known = {
        peer: {key: value for key in {key for one in settings for key in one} if (value := getattr(chosen, key))}
        for peer, settings in SEARCHED.items()
    }
    pythons = {peer: python_of(peer, chosen.environments) for peer in PACKAGES}
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"one thread, float32, seconds of the processor; load of the machine at first: {load}")
    with tempfile.TemporaryDirectory() as name:
        words = words_of(chosen.reference)
        make_model(Path(name) / "model", words)
        for spread in chosen.spreads:
            task = prepare(SPREADS[spread], Path(name) / spread, Path(name) / "model", words)
            texts = task.spread.steps * (task.pairs + task.spread.batch_size)
            print(
                f"\n{spread}: {task.spread.batch_size} rows a step with {1 + task.spread.negatives} passages each, "
                f"{task.tokens / texts:.0f} tokens a text, at most {task.spread.passage_max_length}",
                flush=True,
            )
            contenders = [Contender("lmk_train", Path(sys.executable))]
            for peer, python in pythons.items():
                if python is None:
                    continue
                best = Contender(peer, python, known[peer])
                if not known[peer]:
                    best = best_setting(task, peer, python, short=chosen.short)
                contenders += [Contender(peer, python), *([] if best is None else [best])]
            compare(task, contenders, 1 if chosen.short else chosen.rounds)


if __name__ == "__main__":
    main()
