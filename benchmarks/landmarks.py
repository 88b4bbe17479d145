"""What landmarks cost beside CLS at the same budget of tokens: encoding and a training step, by granularity.

Run: ``python benchmarks/landmarks.py [--repetitions N] [--json FILE]``. The small ModernBERT of ``encode.py`` reads
texts that are longer than the budget, so that every layout has the same number of tokens (checked), and encoders
compute the same shapes. What is left is putting landmarks in and pooling more than one position. The peer is our own
CLS: its vectors are others, so only the number of tokens is compared.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from encode import SHAPES, build_model, library_words
from suite.measuring import Report, interleaved, layer_shapes, matrix_rate, note, options
from suite.result import Result

from lmk_core import Embedder
from lmk_core.layouts.batch import pack_layouts
from lmk_train.config import LossConfig
from lmk_train.gradcache import GradientEngine
from lmk_train.loss import ContrastiveObjective, Targets
from lmk_train.throughput import ModelFlops

GRANULARITIES = (8, 16, 32, 64, 128, 256)
BUDGET, TEXTS, ROWS = 512, 32, 4
"""Tokens a text; texts that are encoded; rows of a step, each a query and a passage of the budget."""


def main() -> None:
    given = options(__doc__, repetitions=5).parse_args()
    warnings.filterwarnings("ignore")
    sizes = GRANULARITIES[:2] if given.quick else GRANULARITIES
    report, words = Report(given.json), library_words()
    count = 4 if given.quick else TEXTS
    texts = [" ".join(words[1000 * number : 1000 * number + 900]) for number in range(count)]
    with tempfile.TemporaryDirectory() as name:
        build_model(Path(name), words)
        models = {"CLS": Embedder.from_pretrained(name, "cls", max_length=BUDGET, device="cpu")}
        for size in sizes:
            models[f"{size}"] = Embedder.from_pretrained(name, "landmark", size, BUDGET, device="cpu")
    for name, model in models.items():
        found = set(model.tokenizer.layouts(texts).lengths.tolist())
        assert found == {BUDGET}, f"{name}: texts of {found} tokens, not {BUDGET}"
    rate = matrix_rate(layer_shapes(models["CLS"].module.encoder.config))
    encoding = {name: lambda model=model: model.encode(texts) for name, model in models.items()}
    compare(report, "encode", encoding, texts, models, rate, given)
    rows = texts[: 2 * (2 if given.quick else ROWS)]
    training = {name: step_of(model, rows) for name, model in models.items()}
    compare(report, "training step", training, rows, models, rate, given)


def compare(
    report: Report,
    what: str,
    ways: dict[str, Callable[[], Any]],
    texts: list[str],
    models: dict[str, Embedder],
    rate: float,
    given: Any,
) -> None:
    """Every granularity beside CLS, all in turn."""
    note(what)
    taken = interleaved(ways, 1 if given.quick else given.repetitions)
    needed = BUDGET * len(texts)
    for name, model in models.items():
        if name == "CLS":
            continue
        flops = ModelFlops(model.module).forward(model.tokenizer.layouts(texts)) * (1 if what == "encode" else 3)
        report.add(
            Result(
                "landmarks",
                f"{what}, granularity {name}",
                taken[name].side("landmarks", needed),
                taken["CLS"].side("CLS, same tokens", needed),
                "s",
                same="the number of tokens alone: vectors are pooled otherwise",
                needed=needed,
                limit=flops / rate,
                limit_of="matrix products",
                conditions={"matrix_rate": rate, "shapes": SHAPES, "flops": flops, "texts": len(texts)},
                headline=name == "32",
                remark="what landmarks cost: they are put in, and as many states are pooled",
            )
        )


def step_of(model: Embedder, texts: list[str]) -> Callable[[], Any]:
    """Layouts, forward, loss and backward of one step: as many queries as passages."""
    rows = len(texts) // 2
    module = model.module.train()
    objective, keys = ContrastiveObjective(LossConfig()), torch.arange(rows)
    targets = Targets(torch.ones(rows, dtype=torch.long), None, torch.zeros(rows, dtype=torch.bool), keys, keys)
    engine = GradientEngine(
        lambda own: module.forward_packed(**pack_layouts(own)), list(module.parameters()), None, packed=True
    )

    def step() -> None:
        module.zero_grad()
        layouts = model.tokenizer.layouts(texts)
        engine.run(layouts, lambda vectors: objective(vectors[:rows], vectors[rows:], targets).loss)

    return step


if __name__ == "__main__":
    main()
