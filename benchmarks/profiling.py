"""Where a training step and an encode spend a CPU's time: self time by operator, grouped.

    python benchmarks/profiling.py [--models quickstart,128x4,384x6] [--lengths short,long] [--work step,encode]
                                   [--repetitions 3] [--small] [--trace FOLDER]

A step is one of `lmk_train.train`, with all that its trainer does, profiled from the third step on. An encode is
`Embedder.encode`, tokenization included, in batches of the size that a CPU takes. Short texts have 64 to 128 tokens,
long ones 4,096; all are words of Python's own library. Times are those of `torch.profiler`, of one thread. What is in
no operator is Python, numpy and the tokenizer; of these, tokenizing and laying out are timed apart.

`--trace FOLDER` writes a Chrome trace for each (chrome://tracing or https://ui.perfetto.dev draw it as a flame graph).
`--small` profiles a toy model on few texts in a few seconds: to see that it runs. (This file is not called profile.py:
that is a module of Python's own library, which torch imports.)
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from encode import SEED, build_model, library_words
from lightning.pytorch.callbacks import Callback
from torch.profiler import ProfilerActivity, profile
from transformers import ModernBertConfig, ModernBertModel

from lmk_core import Embedder
from lmk_core.layouts import PoolingTokenizer
from lmk_core.recording import NullRecorder
from lmk_train import TrainConfig
from lmk_train.fitting import fine_tuning, make_trainer, seed_everything
from lmk_train.ranks.group import Ranks

VOCABULARY = 8192
MODELS = {"toy": (32, 1, 1), "quickstart": (128, 2, 2), "128x4": (128, 4, 4), "384x6": (384, 6, 6)}
"""Hidden size, layers and heads of ModernBERTs."""
POOLING = {"kind": "landmark", "granularity": 32}

GROUPS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear", "aten::baddbmm"),
    "attention": ("scaled_dot_product", "_flash_attention", "_fused_sdp"),
    "optimizer": ("_fused_adam", "_foreach_norm", "aten::_foreach", "aten::lerp", "Optimizer"),
    "layer norm": ("layer_norm",),
    "GELU": ("gelu",),
    "products (mul, div)": ("aten::mul", "aten::div", "aten::addcmul", "aten::pow", "aten::neg"),
    "sums (add, sub, sum)": ("aten::add", "aten::sub", "aten::sum", "aten::mean", "aten::rsub"),
    "copies": ("aten::copy_", "aten::cat", "aten::clone", "aten::contiguous", "aten::fill_", "aten::zero_"),
    "index (embeddings, gathers)": ("aten::index", "aten::embedding", "aten::gather", "aten::scatter", "aten::where"),
    "loss": ("softmax", "nll_loss", "cross_entropy", "logsumexp", "aten::exp", "aten::log"),
    "new arrays": ("aten::empty", "aten::new_", "aten::zeros", "aten::resize_", "aten::set_"),
}
"""The first group with a word that an operator's name begins with, after `autograd::engine::evaluate_function: `."""


Times = dict[str, float]


@dataclass(frozen=True)
class Found:
    """What one piece of work cost, in milliseconds a repetition."""

    whole: float
    operators: Times
    outside: Times
    """Of what is in no operator, the parts that were timed."""


def main() -> None:
    """Profiles what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="quickstart,128x4,384x6")
    parser.add_argument("--lengths", default="short,long")
    parser.add_argument("--work", default="step,encode")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--trace", type=Path)
    asked = parser.parse_args()
    if asked.small:
        asked.models, asked.repetitions = "toy", 1
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    words = library_words()
    print(f"torch {torch.__version__}, one thread, float32, {asked.repetitions} repetitions", flush=True)
    with tempfile.TemporaryDirectory() as name:
        for model, length in itertools.product(asked.models.split(","), asked.lengths.split(",")):
            folder = Path(name) / model
            if not folder.exists():
                make_model(folder, words, *MODELS[model])
            texts = make_texts(words, length, 4 if asked.small and length == "short" else None)
            for work in asked.work.split(","):
                trace = asked.trace and asked.trace / f"{work}-{model}-{length}.json"
                run = profile_step if work == "step" else profile_encode
                show(f"{work}, {model}, {length}", run(folder, texts, asked.repetitions, trace))


def make_model(folder: Path, words: list[str], hidden: int, layers: int, heads: int) -> None:
    """A random ModernBERT with the tokenizer of `encode.py`; all its layers but each third are local."""
    build_model(folder, words)
    torch.manual_seed(SEED)
    config = ModernBertConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers,
        num_attention_heads=heads, max_position_embeddings=8192, initializer_range=0.05,
        pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2,
    )  # fmt: skip
    ModernBertModel(config).save_pretrained(folder)


def make_texts(words: list[str], length: str, count: int | None) -> list[str]:
    """So many texts of these lengths in tokens; about three words of sources are five tokens."""
    drawn = random.Random(SEED)
    short = length == "short"
    tokens = [drawn.randrange(64, 129) if short else 4096 for _ in range(count or (64 if short else 2))]
    starts = [drawn.randrange(len(words) - 8192) for _ in tokens]
    return [" ".join(words[start : start + number]) for start, number in zip(starts, tokens, strict=True)]


def profile_step(folder: Path, texts: list[str], repetitions: int, trace: Path | None) -> Found:
    """Steps of a fine-tune: each text is a row's passage, its first words the query."""
    with tempfile.TemporaryDirectory() as name:
        rows = Path(name) / "rows.jsonl"
        lines = [json.dumps({"query": " ".join(text.split()[:12]), "pos": [text], "neg": []}) for text in texts]
        rows.write_text("".join(line + "\n" for line in lines))
        longest = 4096 if len(texts) < 4 else 128
        config = TrainConfig.model_validate(
            {
                "model": {"path": str(folder)},
                "pooling": POOLING,
                "data": {
                    "train": [str(rows)], "negatives": 0, "query_max_length": 32, "passage_max_length": longest,
                    "cache": name,
                },
                "optim": {"steps": 2 + repetitions, "batch_size": len(texts), "learning_rate": 1e-4},
                "runtime": {"accelerator": "cpu", "threads": 1, "checkpoint_every": None, "log_every": 1},
            }
        )  # fmt: skip
        seed_everything(0)
        work = fine_tuning(config, NullRecorder(), Ranks())
        watch = Watching(repetitions, trace)
        make_trainer(config, Path(name), [watch]).fit(work.module, datamodule=work.data)
    assert watch.found is not None
    return watch.found


class Watching(Callback):
    """Profiles the last steps, from the end of the one before to the end of each: what is between steps counts."""

    def __init__(self, repetitions: int, trace: Path | None) -> None:
        self.repetitions, self.trace = repetitions, trace
        self.found: Found | None = None

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == 2:
            self.profiler = profile(activities=[ProfilerActivity.CPU])
            self.profiler.start()
            self.began = time.perf_counter()
        elif trainer.global_step == 2 + self.repetitions:
            whole = time.perf_counter() - self.began
            self.profiler.stop()
            self.found = collect(self.profiler, whole, self.repetitions, {}, self.trace)


def profile_encode(folder: Path, texts: list[str], repetitions: int, trace: Path | None) -> Found:
    """Encodes of all texts."""
    longest = 4096 if len(texts) < 4 else 128
    embedder = Embedder.from_pretrained(folder, "landmark", 32, max_length=longest, device="cpu")
    embedder.encode(texts)
    spent: Times = defaultdict(float)
    with (
        timed(PoolingTokenizer, "tokenize", spent),
        timed(PoolingTokenizer, "lay_out", spent),
        profile(activities=[ProfilerActivity.CPU]) as profiler,
    ):
        began = time.perf_counter()
        for _ in range(repetitions):
            embedder.encode(texts)
        whole = time.perf_counter() - began
    outside = {name: 1000 * seconds / repetitions for name, seconds in spent.items()}
    return collect(profiler, whole, repetitions, outside, trace)


@contextmanager
def timed(owner: Any, name: str, spent: Times) -> Iterator[None]:
    """Adds up the seconds of a method."""
    method: Callable[..., Any] = getattr(owner, name)

    def measured(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(*arguments, **options)
        finally:
            spent[name] += time.perf_counter() - began

    setattr(owner, name, measured)
    try:
        yield
    finally:
        setattr(owner, name, method)


def collect(profiler: Any, whole: float, repetitions: int, outside: Times, trace: Path | None) -> Found:
    """The self times of all operators."""
    operators: Times = defaultdict(float)
    for event in profiler.key_averages():
        operators[event.key] += event.self_cpu_time_total / 1000 / repetitions
    if trace:
        trace.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(trace))
    return Found(1000 * whole / repetitions, operators, outside)


def show(title: str, found: Found) -> None:
    """A line a group with its largest operators, largest first."""
    groups: dict[str, Times] = {}
    for operator, spent in found.operators.items():
        groups.setdefault(group_of(operator), {})[operator] = spent
    print(f"\n{title}: {found.whole:.1f} ms")
    rest = found.whole - sum(found.operators.values())
    lines: list[tuple[float, str, Times]] = [(sum(own.values()), name, own) for name, own in groups.items()]
    lines.append((rest, "no operator", found.outside))
    for spent, name, own in sorted(lines, key=lambda line: -line[0]):
        largest = ", ".join(
            f"{operator.removeprefix('aten::')} {100 * each / found.whole:.1f}"
            for operator, each in sorted(own.items(), key=lambda one: -one[1])[:4]
            if each > found.whole / 500
        )
        print(f"  {100 * spent / found.whole:5.1f} %  {name:28} {largest}", flush=True)


def group_of(operator: str) -> str:
    """The group of an operator: what autograd does around one is its own group."""
    for group, words in GROUPS.items():
        if any(word in operator if not word.startswith("aten::") else operator.startswith(word) for word in words):
            return group
    return "autograd and views"


if __name__ == "__main__":
    main()
