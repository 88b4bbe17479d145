"""Whole training steps on a GPU, in the shapes of ModernBERT-base: packed beside padded, with and without GradCache.

Run: ``python benchmarks/gpu_train.py [STEPS] [--small] [--json FILE]`` (default 12 steps of each way; some minutes on
an H100). Random weights in bfloat16 over float32, rows of 1 + 7 passages: short ones with MS MARCO's spread of
lengths (median about 75 tokens), 256 rows a step, and long ones of 500 to 8,192 tokens, 8 rows. It is
`lmk_train.train` that runs, so everything counts: data, loss, clip, AdamW. Printed are, as medians of the last two
thirds of the steps, real tokens a second, model FLOPs utilization (see `lmk_train.throughput.ModelFlops`) or
teraflops a second where the GPU is not known, the padding, and the peak memory. Packed and padded have to give losses
that agree.

Where there is no GPU it says so and does nothing. ``--small`` runs all of it with a small model on whatever there is,
to check the script itself.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from suite.measuring import Report
from suite.result import Result, Side

SHAPES: dict[str, dict[str, Any]] = {
    "short": {"rows": 256, "negatives": 7, "longest": 512, "chunk": 65_536},
    "long": {"rows": 8, "negatives": 7, "longest": 8192, "chunk": 65_536},
}
SMALL: dict[str, dict[str, Any]] = {
    "short": {"rows": 8, "negatives": 3, "longest": 64, "chunk": 512},
    "long": {"rows": 2, "negatives": 1, "longest": 512, "chunk": 512},
}
WAYS: dict[str, dict[str, Any]] = {
    "packed": {},
    "packed, layers again": {"activation_checkpointing": True, "chunk_tokens": None},
    "padded": {"packed": False},
}
VOCABULARY = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="?", type=int, default=12)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--quick", action="store_true", help="three steps of each way")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too, one a line")
    given = parser.parse_args()
    if not torch.cuda.is_available() and not given.small:
        print("not run: no CUDA device")
        return
    steps, report = 3 if given.quick else given.steps, Report(given.json)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    print(f"{name}, torch {torch.__version__}, bfloat16 over float32 weights, {steps} steps of each way")
    print(f"{'texts':6} {'way':22} {'tokens/s':>10} {'MFU':>12} {'padding':>8} {'peak GiB':>9} {'loss':>8}")
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "model", small=given.small)
        for texts, shape in (SMALL if given.small else SHAPES).items():
            compare(Path(folder), texts, shape, steps, report)


def compare(folder: Path, texts: str, shape: dict[str, Any], steps: int, report: Report) -> None:
    rows = folder / f"{texts}.jsonl"
    make_rows(rows, shape, long=texts == "long", steps=steps)
    losses, sides = {}, {}
    for way, runtime in WAYS.items():
        record = Record()
        peak = run(folder, rows, shape, steps, runtime, record)
        losses[way] = record.values[0]["train/loss"]
        late = record.values[len(record.values) // 3 :]

        def middle(key: str, late: list[dict[str, float]] = late) -> float:
            return statistics.median(values[key] for values in late)

        sides[way] = Side(way, tuple(1e6 / values["train/tokens_per_second"] for values in late))
        teraflops = f"{middle('train/teraflops_per_second'):.3g} TF/s"
        used = f"{middle('train/mfu'):.1%}" if "train/mfu" in late[0] else teraflops
        print(
            f"{texts:6} {way:22} {middle('train/tokens_per_second'):10.0f} {used:>12} "
            f"{middle('train/padding_share'):8.1%} {peak:9.1f} {losses[way]:8.4f}",
            flush=True,
        )
    # Another rounding of bfloat16 each; a mask that is wrong moves the first loss by far more.
    assert abs(losses["packed"] - losses["padded"]) < 0.02 * abs(losses["padded"]), losses
    apart = abs(losses["packed"] - losses["padded"]) / abs(losses["padded"])
    for peer in WAYS:
        if peer != "packed":
            case = f"a million tokens, {texts} texts"
            report.add(Result("GPU, train", case, sides["packed"], sides[peer], "s", same=f"losses to {apart:.0e}"))


class Record:
    """Keeps metrics."""

    def __init__(self) -> None:
        self.values: list[dict[str, float]] = []

    def event(self, kind: str, **fields: Any) -> None:
        if kind in {"padded", "chunk_halved"}:
            print(f"{kind}: {fields}")

    def metrics(self, values: Mapping[str, float], step: int) -> None:  # noqa: ARG002
        self.values.append(dict(values))

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        pass


def run(folder: Path, rows: Path, shape: dict[str, Any], steps: int, runtime: dict[str, Any], record: Record) -> float:
    """Trains; the peak memory of the GPU in GiB."""
    from lmk_train import TrainConfig, train

    config = {
        "model": {"path": str(folder / "model")},
        "pooling": {"kind": "landmark", "granularity": [32, 64, 128, 256]},
        "data": {
            "train": [str(rows)],
            "cache": str(folder / "cache"),
            "negatives": shape["negatives"],
            "query_max_length": 128,
            "passage_max_length": shape["longest"],
        },
        "optim": {"steps": steps, "batch_size": shape["rows"], "learning_rate": 1e-5},
        "precision": "bf16",
        "runtime": {"log_every": 1, "checkpoint_every": None, "chunk_tokens": shape["chunk"], **runtime},
    }
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory(dir=folder) as run_folder:
        train(TrainConfig.model_validate(config), Path(run_folder), record)
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0


def make_rows(path: Path, shape: dict[str, Any], *, long: bool, steps: int) -> None:
    """As many rows as a few steps have, so that tokenizing them is no matter. A word is a token."""
    draw = random.Random(7)

    def text(count: int) -> str:
        return " ".join(f"w{draw.randrange(VOCABULARY)}" for _ in range(count))

    def passage() -> str:
        longest = shape["longest"]
        count = draw.randint(longest // 16, longest) if long else min(longest, int(draw.lognormvariate(4.3, 0.5)))
        return text(max(4, count))

    with path.open("w", encoding="utf-8") as file:
        for _ in range(shape["rows"] * min(steps, 4)):
            negatives = [passage() for _ in range(shape["negatives"])]
            file.write(json.dumps({"query": text(draw.randint(4, 16)), "pos": [passage()], "neg": negatives}) + "\n")


def make_model(folder: Path, *, small: bool) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    words = [*special, *(f"w{number}" for number in range(VOCABULARY))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    named = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "unk": "[UNK]", "mask": "[MASK]"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{kind}_token": token for kind, token in named.items()}
    )
    fast.save_pretrained(folder)
    shapes: dict[str, Any] = {}  # the defaults of ModernBertConfig are ModernBERT-base
    if small:
        shapes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=len(words), pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2, **shapes
    )
    model = ModernBertModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                # As it starts all texts are read nearly alike, and any loss is the logarithm of their number.
                parameter.mul_(4 * (768 / config.hidden_size) ** 0.5)
    model.save_pretrained(folder)


if __name__ == "__main__":
    main()
