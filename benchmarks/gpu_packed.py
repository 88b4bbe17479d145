"""Packed batches with the flash kernel beside padded ones with SDPA, on a GPU, in the shapes of ModernBERT-base.

Run: ``python benchmarks/gpu_packed.py [--repetitions N] [--json FILE]``. Random weights in bfloat16, texts of 512 and
of 8,192 tokens and of mixed lengths up to those, forward and forward with backward. First it checks that both give
the same vectors, and that the packed ones are those of float32; then it times them in turn. A ratio above 1: packed
is faster. Where there is no CUDA device it says so and does nothing. Needs a few GiB and about two minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from suite.measuring import Report, options
from suite.result import Result, Side
from transformers import ModernBertConfig, ModernBertModel

from lmk_core import PooledEncoder, PoolingConfig
from lmk_core.layouts import Layout
from lmk_core.layouts.batch import pack_layouts, pad_layouts
from lmk_core.layouts.layout import Layouts

TOKENS = 65_536  # of a batch
TOLERANCE = 2e-2  # between bfloat16 vectors of length 1


def build() -> PooledEncoder:
    config = ModernBertConfig()  # its defaults are ModernBERT-base
    torch.manual_seed(0)
    encoder = ModernBertModel(config)
    return PooledEncoder(encoder, PoolingConfig("landmark", granularity=32)).eval().cuda()


def batch_of(lengths: list[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same texts padded and packed, with a landmark every 33 tokens."""
    drawn = random.Random(len(lengths))
    layouts = Layouts.from_list(
        Layout([drawn.randrange(5, 50_000) for _ in range(length)], [*range(33, length - 1, 33), length - 1])
        for length in lengths
    )

    def moved(batch: Any) -> dict[str, Any]:
        return {key: value.cuda() if isinstance(value, torch.Tensor) else value for key, value in batch.items()}

    return moved(pad_layouts(layouts, 50283)), moved(pack_layouts(layouts))


def check(module: PooledEncoder, lengths: list[int]) -> None:
    """Packed with the flash kernel against float32 without packing, text by text; and padded in bfloat16."""
    padded, packed = batch_of(lengths)
    with torch.no_grad():
        with torch.autocast("cuda", torch.bfloat16):
            found, other = module.forward_packed(**packed), module(**padded)
        exact = torch.cat([module(**batch_of_one(padded, row)) for row in range(len(lengths))])
        in_float32 = module.forward_packed(**packed)
    apart = float((found - other).abs().max())
    away, rectangles = float((found - exact).abs().max()), float((in_float32 - exact).abs().max())
    print(
        f"texts of {min(lengths)} to {max(lengths)}: packed and padded differ by {apart:.1e}, packed and float32 by "
        f"{away:.1e}; float32 packed and padded by {rectangles:.1e}"
    )
    assert apart < TOLERANCE
    assert away < TOLERANCE
    assert rectangles < 1e-4
    # A window that is off by one, or a look across texts, changes vectors by more than rounding does: see the ratio.
    rounding = float((other - exact).abs().max())
    assert away < 3 * rounding + 1e-3, f"packed is {away:.1e} from float32, padded only {rounding:.1e}"


def batch_of_one(padded: dict[str, Any], row: int) -> dict[str, Any]:
    length = int(padded["attention_mask"][row].sum())
    return {key: value[row : row + 1, :length] for key, value in padded.items()}


def seconds(run: Callable[[], Any]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000


def compare(
    module: PooledEncoder, name: str, lengths: list[int], backward: bool, repetitions: int, report: Report
) -> None:
    padded, packed = batch_of(lengths)

    def run(forward: Callable[..., torch.Tensor], batch: dict[str, Any]) -> None:
        with torch.set_grad_enabled(backward), torch.autocast("cuda", torch.bfloat16):
            vectors = forward(**batch)
        if backward:
            module.zero_grad(set_to_none=True)
            vectors[:, 0].sum().backward()

    ways = {"packed": lambda: run(module.forward_packed, packed), "padded": lambda: run(module, padded)}
    times: dict[str, list[float]] = {way: [] for way in ways}
    peaks: dict[str, float] = {}
    for way, go in ways.items():
        go()
        torch.cuda.reset_peak_memory_stats()
        go()
        peaks[way] = torch.cuda.max_memory_allocated() / 1e9
    for _ in range(repetitions):
        for way, go in ways.items():
            times[way].append(seconds(go))
    needed, case = sum(lengths), f"{name}, {'forward and backward' if backward else 'forward'}"
    computed = {"packed": needed, "padded": max(lengths) * len(lengths)}
    packed_side, padded_side = (Side(way, tuple(times[way]), (), computed[way]) for way in ("packed", "padded"))
    report.add(Result("GPU, packed", f"time, {case}", packed_side, padded_side, "s", needed=needed))
    packed_side, padded_side = (Side(way, (1000 * peaks[way],)) for way in ("packed", "padded"))
    report.add(Result("GPU, packed", f"memory, {case}", packed_side, padded_side, "MB"))


def main() -> None:
    given = options(__doc__, repetitions=7).parse_args()
    if not torch.cuda.is_available():
        print("not run: no CUDA device")
        return
    report, repetitions = Report(given.json), 1 if given.quick else given.repetitions
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, bfloat16 autocast")
    module = build()
    for lengths in ([512, 500, 300, 40, 7], [8192, 3000, 130, 129, 64, 2]):
        check(module, lengths)
    drawn = random.Random(1)
    cases = {
        "512": [512] * (TOKENS // 512),
        "8192": [8192] * (TOKENS // 8192),
        "mixed up to 512": [drawn.randint(16, 512) for _ in range(TOKENS // 264)],
        "mixed up to 8192": [drawn.randint(64, 8192) for _ in range(TOKENS // 4128)],
    }
    for name, lengths in cases.items():
        for backward in (False, True):
            compare(module, name, lengths, backward, repetitions, report)


if __name__ == "__main__":
    main()
