"""RetroMAE's decoder on a GPU: FlexAttention, which it uses there, beside the blocks of queries, the reference.

Run: ``python benchmarks/gpu_retromae.py [--repetitions 7]``. Values and gradients of both, in float32 (to 1e-5) and in
bfloat16 (to 1e-2, and 1e-3 on average), then seconds of forward and backward and the peak of memory, for one text of
1,024 to 8,192 tokens and for eight of mixed lengths up to 4,096. A ratio above 1: FlexAttention is faster. Heads are
those of ModernBERT-base. The first call of each dtype compiles, for some seconds. Where there is no CUDA device it says
so and does nothing; ``--small`` then compares what a CPU can: values of uncompiled FlexAttention, which has no gradient
there.
"""

from __future__ import annotations

import itertools
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from suite.measuring import Report, options
from suite.result import Result, Side
from torch import Tensor

from lmk_train.retromae.attention import Sight, blocked_attention
from lmk_train.retromae.flex import flex
from lmk_train.retromae.masks import hide_patterns

HEADS, WIDTH = 12, 64
LENGTHS = (1024, 2048, 4096, 8192)
LARGEST = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
AVERAGE = {torch.float32: 1e-6, torch.bfloat16: 1e-3}
"""Differences of values of about 1 that are rounding: of gradients, as parts of their largest value."""

Attend = Callable[[Tensor, Tensor, Tensor, Sight], Tensor]


def main() -> None:
    """Compares on the GPU, or says that there is none."""
    parser = options(__doc__, repetitions=7)
    parser.add_argument("--small", action="store_true", help="the values alone, which a CPU can compare too")
    asked = parser.parse_args()
    if asked.small:
        small()
        return
    if not torch.cuda.is_available():
        print("not run: no CUDA device")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {HEADS} heads of {WIDTH}")
    torch.set_float32_matmul_precision("highest")
    report, repetitions = Report(asked.json), 1 if asked.quick else asked.repetitions
    drawn = random.Random(0)
    cases = [*([length] for length in LENGTHS), [drawn.randint(64, 4096) for _ in range(8)]]
    for dtype in (torch.float32, torch.bfloat16):
        print(
            f"\n{dtype}: largest and mean difference, forward s, backward s (flex, blocks), ratios, GiB (flex, blocks)"
        )
        for lengths in cases:
            sight = make_sight(lengths, "cuda")
            differences = compare(sight, dtype)
            taken = timed(sight, dtype, repetitions)
            print(f"{name_of(lengths):18} {differences}  {taken}", flush=True)
            for result in taken.results(f"{name_of(lengths)} tokens, {str(dtype).removeprefix('torch.')}"):
                report.add(result)


def small() -> None:
    """Values on a CPU, of short texts."""
    sight = make_sight([200, 57, 300], "cpu")
    states = make_states(sight, torch.float32)
    with torch.no_grad():
        apart = (flex(*states, sight, compiled=False) - blocked_attention(*states, sight)).abs()
    print(f"values on a CPU, 557 tokens of 3 texts: largest difference {apart.max():.1e}")
    assert apart.max() < LARGEST[torch.float32], "FlexAttention is asked for other pairs"
    print("gradients, bfloat16, times and memory: not run: no CUDA device" if not torch.cuda.is_available() else "")


def make_sight(lengths: list[int], device: str) -> Sight:
    """Texts with words of which half are hidden by each of 128 patterns."""
    draw = np.random.RandomState(0)
    bounds = [0, *itertools.accumulate(lengths)]
    hidden = np.zeros((128, bounds[-1]), dtype=bool)
    patterns = np.zeros(bounds[-1], dtype=np.int64)
    for start, stop in itertools.pairwise(bounds):
        own, of_tokens = hide_patterns(draw.random_sample(stop - start) < 0.7, 0.5, draw)
        hidden[: len(own), start:stop], patterns[start:stop] = own, of_tokens
    return Sight(tuple(bounds), torch.from_numpy(hidden).to(device), torch.from_numpy(patterns).to(device))


def make_states(sight: Sight, dtype: torch.dtype) -> list[Tensor]:
    """Queries, keys and values, the same for both."""
    torch.manual_seed(0)
    shape = (sight.bounds[-1], HEADS, WIDTH)
    made = [torch.randn(shape).to(sight.patterns.device, dtype) for _ in range(3)]
    return [states.requires_grad_() for states in made]


def results(attend: Attend, sight: Sight, dtype: torch.dtype) -> list[Tensor]:
    """The values, and the gradients of the three."""
    states = make_states(sight, dtype)
    out = attend(*states, sight)
    out.backward(torch.linspace(-1, 1, WIDTH, device=out.device, dtype=out.dtype).expand_as(out))
    return [out.detach().float(), *(state.grad.float() for state in states if state.grad is not None)]


def compare(sight: Sight, dtype: torch.dtype) -> str:
    """FlexAttention against the blocks in float32, computed from the same rounded numbers.

    Raises:
        AssertionError: a difference that is more than rounding.
    """
    states = [state.detach().float() for state in make_states(sight, dtype)]
    exact = [state.requires_grad_() for state in states]
    out = blocked_attention(*exact, sight)
    out.backward(torch.linspace(-1, 1, WIDTH, device=out.device).to(dtype).float().expand_as(out))
    wanted = [out.detach(), *(state.grad for state in exact if state.grad is not None)]
    largest, average = 0.0, 0.0
    for own, other in zip(results(flex, sight, dtype), wanted, strict=True):
        apart, scale = (own - other).abs(), max(1.0, float(other.abs().max()))
        largest, average = max(largest, float(apart.max()) / scale), max(average, float(apart.mean()) / scale)
    assert largest < LARGEST[dtype], f"{dtype}: FlexAttention differs by {largest:.1e}"
    assert average < AVERAGE[dtype], f"{dtype}: FlexAttention differs by {average:.1e} on average"
    return f"{largest:.1e} {average:.1e}"


WAYS: dict[str, Attend] = {"flex": flex, "blocks": blocked_attention}
PARTS = ("forward", "backward")


@dataclass(frozen=True)
class Timed:
    """Seconds of both ways and directions, taken in turn, and the peaks in GiB."""

    seconds: dict[tuple[str, str], list[float]]
    peaks: dict[str, float]

    def __str__(self) -> str:
        middle = {key: statistics.median(values) for key, values in self.seconds.items()}
        times = " ".join(f"{middle[way, part]:.4f}" for part in PARTS for way in WAYS)
        ratios = " ".join(f"{middle['blocks', part] / middle['flex', part]:.2f}" for part in PARTS)
        return f"{times}  {ratios}  {self.peaks['flex']:.2f} {self.peaks['blocks']:.2f}"

    def results(self, case: str) -> list[Result]:
        """One a direction, and one of memory."""
        name, found = "GPU, RetroMAE", []
        for part in PARTS:
            ours, peer = (Side(way, tuple(self.seconds[way, part])) for way in WAYS)
            found.append(Result(name, f"time, {case}, {part}", ours, peer, "s"))
        ours, peer = (Side(way, (1024 * self.peaks[way],)) for way in WAYS)
        return [*found, Result(name, f"memory, {case}", ours, peer, "MB")]


def timed(sight: Sight, dtype: torch.dtype, repetitions: int) -> Timed:
    """Both directions of both ways."""
    seconds: dict[tuple[str, str], list[float]] = {(way, part): [] for way in WAYS for part in PARTS}
    peaks = {}
    for way, attend in WAYS.items():
        once(attend, sight, dtype)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        once(attend, sight, dtype)
        peaks[way] = (torch.cuda.max_memory_allocated() - before) / 2**30
    for _ in range(repetitions):
        for way, attend in WAYS.items():
            for part, spent in zip(PARTS, once(attend, sight, dtype), strict=True):
                seconds[way, part].append(spent)
    return Timed(seconds, peaks)


def once(attend: Attend, sight: Sight, dtype: torch.dtype) -> tuple[float, float]:
    """Seconds of one forward and one backward pass."""
    states = make_states(sight, dtype)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    marks[0].record()
    out = attend(*states, sight)
    marks[1].record()
    out.backward(torch.ones_like(out))
    marks[2].record()
    torch.cuda.synchronize()
    return marks[0].elapsed_time(marks[1]) / 1000, marks[1].elapsed_time(marks[2]) / 1000


def name_of(lengths: list[int]) -> str:
    """How a case is shown."""
    return str(lengths[0]) if len(lengths) == 1 else f"{len(lengths)} of mixed length"


if __name__ == "__main__":
    sys.exit(main())
