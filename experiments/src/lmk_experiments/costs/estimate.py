"""The cost of one cell: GPU hours by measured speed or by the formula, and disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lmk_eval.suites import Suite
from lmk_experiments.costs.throughput import Throughput
from lmk_experiments.costs.tokens import Tokens, pretraining_tokens, suite_tokens, training_tokens
from lmk_experiments.grids.size import ModelSize
from lmk_train.config import PretrainConfig, TrainConfig

FLOPS = {"bfloat16": 400e12, "float16": 400e12, "float32": 27e12}
"""Operations a second of one GPU, by the type it computes in: an H100 at two fifths of its peak. Nothing here turns on
TF32, so float32 has no use of the units that make the others fast."""
PRECISIONS = {"bf16": "bfloat16", "fp32": "float32"}
"""What a training's ``precision`` computes in."""
TRAINING_FLOP = 8
"""Operations a parameter and token of a fine-tune: with GradCache two forwards (2 each) and one backward (4)."""
PRETRAINING_FLOP = 6
"""Of a pre-training: one forward and one backward."""
ENCODING_FLOP = 2
"""Of an evaluation: one forward."""
WEIGHT_BYTES = 4
CHECKPOINT_BYTES = 12
"""A parameter in a checkpoint: float32 weights and AdamW's two moments."""
STORED_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""A number of an embedding on disk."""
TOKEN_BYTES = 4
"""A token that is kept for other readings."""
_GB = 1e9


@dataclass(frozen=True)
class Cost:
    """An estimate; what cannot be known is ``None``.

    Attributes:
        gpu_hours: hours of one GPU; how many share the work does not matter.
        kept_gb: disk that stays: a training's final weights.
        passing_gb: disk while it runs: a training's checkpoint; an evaluation's tokens, and the embeddings of its
            largest corpus, since those of a corpus go once it is scored.
        basis: what the hours rest on: a measured speed, or the formula; or why they are unknown.
        lengths: what the number of tokens rests on.
    """

    gpu_hours: float | None
    kept_gb: float | None
    passing_gb: float | None
    basis: str
    tokens: float | None = None
    lengths: str = ""


def training_cost(config: TrainConfig, size: ModelSize | None, speed: Throughput | None = None) -> Cost:
    """The cost of a fine-tune."""
    return _training(training_tokens(config), TRAINING_FLOP, config.precision, size, speed)


def pretraining_cost(config: PretrainConfig, size: ModelSize | None, speed: Throughput | None = None) -> Cost:
    """The cost of a pre-training (its decoder, one layer, is left out)."""
    return _training(pretraining_tokens(config), PRETRAINING_FLOP, config.precision, size, speed)


def evaluation_cost(
    suite: Suite,
    max_length: int,
    size: ModelSize | None,
    root: Path,
    speed: Throughput | None = None,
    storage: str = "float32",
    weights: str = "float32",
) -> Cost:
    """The cost of one reading on one suite.

    Args:
        weights: the type that texts are encoded in.
        storage: the type that embeddings lie on disk in.
    """
    found = suite_tokens(suite, max_length, root)
    if found is None:
        return Cost(None, 0.0, None, "unknown: how much text the tasks hold")
    measured = None if speed is None else speed.encoding(weights)
    hours, basis = _hours(found, ENCODING_FLOP, weights, size, speed, measured)
    held = None
    if found.largest is not None and size is not None:
        held = (found.largest * size.dim * STORED_BYTES[storage] + found.tokens * TOKEN_BYTES) / _GB
    return Cost(hours, 0.0, held, basis, found.tokens, found.basis)


def encoding_hours(tokens: float, size: ModelSize | None, speed: Throughput | None) -> tuple[float | None, str]:
    """Hours of one GPU that encodes so many tokens in float32, and what they rest on."""
    measured = None if speed is None else speed.encoding("float32")
    return _hours(Tokens(tokens, ""), ENCODING_FLOP, "float32", size, speed, measured)


def total(costs: Iterable[Cost]) -> Cost:
    """The sum; what is unknown of some cells is left out, and ``basis`` says of how many."""
    listed = list(costs)
    known = [cost for cost in listed if cost.gpu_hours is not None]
    bases = [*dict.fromkeys(cost.basis for cost in known)]
    if len(known) < len(listed):
        bases.append(f"{len(listed) - len(known)} of {len(listed)} cells unknown")
    return Cost(
        sum(cost.gpu_hours or 0.0 for cost in listed),
        sum(cost.kept_gb or 0.0 for cost in listed),
        sum(cost.passing_gb or 0.0 for cost in listed),
        "; ".join(bases),
        sum(cost.tokens or 0.0 for cost in listed),
        ", ".join(dict.fromkeys(cost.lengths for cost in known if cost.lengths)),
    )


def _training(found: Tokens, flop: int, precision: str, size: ModelSize | None, speed: Throughput | None) -> Cost:
    hours, basis = _hours(found, flop, PRECISIONS[precision], size, speed, None if speed is None else speed.train)
    if size is None:
        return Cost(hours, None, None, basis, found.tokens, found.basis)
    parameters = size.parameters + size.embedding_parameters
    kept, passing = parameters * WEIGHT_BYTES / _GB, parameters * CHECKPOINT_BYTES / _GB
    return Cost(hours, kept, passing if found.tokens else 0.0, basis, found.tokens, found.basis)


def _hours(
    found: Tokens, flop: int, kind: str, size: ModelSize | None, speed: Throughput | None, a_second: float | None
) -> tuple[float | None, str]:
    if speed is not None and a_second is not None:
        return found.tokens / a_second / 3600, f"measured, {a_second:,.0f} tokens/s a GPU ({speed.source})"
    if size is None:
        return None, "unknown: how large the model is (`size` in its file)"
    hours = flop * size.parameters * found.tokens / FLOPS[kind] / 3600
    return hours, f"formula, {flop} FLOP a parameter and token at {FLOPS[kind] / 1e12:.0f} TFLOP/s in {kind}"
