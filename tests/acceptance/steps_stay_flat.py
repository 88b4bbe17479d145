"""By hand: over 2,000 steps of varying lengths neither a step's time nor the memory grows.

Run: ``python tests/acceptance/steps_stay_flat.py [STEPS]`` (default 2000; about four minutes on one quiet core). A tiny
ModernBERT trains on rows whose passages are short as MS MARCO's are, mixed with a few long ones, in packed chunks with
GradCache, so that every step has other shapes and other plans of the attention. Printed are, for each quarter, the
median of the processor time for a thousand tokens and the resident memory at its end; the last quarter is compared with
the first. It ends with 1 where the time has risen by more than a tenth, or the memory since the end of the first
quarter by more than 5 %.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORDS = [first + second for first in "bcdfghjklmnpqrstvwxz" for second in ("a", "e", "i", "o", "u", "ar", "en", "il")]


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as folder:
        record = train_on_it(Path(folder), steps)
    quarter = len(record.seconds) // 4
    print("steps            tokens a step   ms of processor for 1,000 tokens (quartiles)   resident MB at the end")
    medians, marks = [], []
    for number in range(4):
        part = range(number * quarter, (number + 1) * quarter)
        costs = [1e6 * record.seconds[step] / record.tokens[step] for step in part]
        low, middle, high = statistics.quantiles(costs, n=4)
        tokens = statistics.mean(record.tokens[step] for step in part)
        medians.append(middle)
        marks.append(record.resident[part[-1]])
        print(
            f"{part[0] + 1:5} to {part[-1] + 1:5}   {tokens:10.0f}   {middle:14.2f} ({low:.2f} to {high:.2f})"
            f"   {marks[-1]:24.0f}"
        )
    slower, grown = medians[3] / medians[0], marks[3] / marks[0]
    print(f"last quarter / first: time {slower:.3f}, memory {grown:.3f}; largest resident ever {largest():.0f} MB")
    sys.exit(0 if slower < 1.1 and grown < 1.05 else 1)


class Record:
    """Of each step its tokens, its processor time and the memory behind it."""

    def __init__(self) -> None:
        self.tokens: list[float] = []
        self.seconds: list[float] = []
        self.resident: list[float] = []
        self._since = time.process_time()

    def event(self, kind: str, **fields: Any) -> None:
        if kind not in {"start", "finished"}:
            print(kind, fields)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        now = time.process_time()
        self.seconds.append(now - self._since)
        self.resident.append(resident())
        self._since = time.process_time()

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        pass


def train_on_it(folder: Path, steps: int) -> Record:
    """Trains, with a record of every step."""
    import torch

    from lmk_train import TrainConfig, train
    from lmk_train.modules import ContrastiveModule

    torch.set_num_threads(1)
    make_model(folder / "model")
    make_rows(folder / "rows.jsonl", random.Random(1))
    record, original = Record(), ContrastiveModule.training_step

    def counted(module: ContrastiveModule, batch: Any, batch_idx: int) -> Any:
        record.tokens.append(batch.tokens)
        return original(module, batch, batch_idx)

    ContrastiveModule.training_step = counted
    config = {
        "model": {"path": str(folder / "model")},
        "pooling": {"kind": "landmark", "granularity": [16, 32]},
        "data": {
            "train": [str(folder / "rows.jsonl")],
            "cache": str(folder / "cache"),
            "negatives": 3,
            "query_max_length": 32,
            "passage_max_length": 1024,
        },
        "optim": {"steps": steps, "batch_size": 8, "learning_rate": 1e-4, "warmup_steps": 20},
        "runtime": {
            "accelerator": "cpu",
            "log_every": 1,
            "checkpoint_every": 500,
            "chunk_tokens": 2048,
            "divergence": None,
        },
    }
    train(TrainConfig.model_validate(config), folder / "run", record)
    return record


def make_rows(path: Path, draw: random.Random) -> None:
    """400 rows; passages of about 50 words, one in 25 of 200 to 900."""

    def text(count: int) -> str:
        return " ".join(draw.choices(WORDS, k=count))

    def length() -> int:
        return draw.randint(200, 900) if draw.random() < 0.04 else max(5, int(draw.lognormvariate(3.8, 0.5)))

    with path.open("w", encoding="utf-8") as file:
        for _ in range(400):
            row = {
                "query": text(draw.randint(3, 12)),
                "pos": [text(length())],
                "neg": [text(length()) for _ in range(4)],
            }
            file.write(json.dumps(row) + "\n")


def make_model(folder: Path) -> None:
    """A ModernBERT of 2 layers, one of them local, and a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "unk": "[UNK]", "mask": "[MASK]"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, **{f"{kind}_token": token for kind, token in named.items()}
    )
    tokenizer.save_pretrained(folder)
    config = ModernBertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        global_attn_every_n_layers=2,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
        mlp_dropout=0.1,
    )
    ModernBertModel(config).save_pretrained(folder)


def resident() -> float:
    """Megabytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def largest() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
