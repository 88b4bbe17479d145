"""Memory and time of the attention of RetroMAE's decoder, forward and backward, beside whole matrices.

Run: ``python benchmarks/retromae_memory.py [--repetitions N] [--json FILE]``. In the decoder each position sees
tokens of its own: the published form makes a matrix of every pair of tokens, ours computes some rows at a time. Each
is measured in a process of its own, on one text; their values and gradients are compared first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from suite.measuring import Report, note, options
from suite.result import Result, Side
from training.measuring import high_water, reset_mark

LENGTHS = (1024, 4096)
HEADS, WIDTH = 2, 16
STATES = 8
"""Queries, keys, values and what comes out, and the gradients of each."""
ATTEMPTS = 3
EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def main() -> None:
    parser = options(__doc__, repetitions=3)
    parser.add_argument("--here", nargs=2, metavar=("WAY", "LENGTH"), help="measure this way in this process")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.here[0], int(given.here[1]))))
        return
    report = Report(given.json)
    same = f"to {difference():.0e}"
    for length in LENGTHS[:1] if given.quick else LENGTHS:
        found: dict[str, list[dict[str, float]]] = {"blocks": [], "dense": []}
        for number in range(1 if given.quick else given.repetitions):
            for way in found if number % 2 else reversed(found):
                note(f"{length} tokens, repetition {number + 1}: {way}")
                found[way].append(in_a_process(way, length))
        case = f"{length:,} tokens"
        least = STATES * length * HEADS * WIDTH * 4 / 1e6
        more: dict[str, Any] = {"limit": least, "limit_of": "inputs"}
        sides = [
            Side(name, tuple(one["bytes"] / 1e6 for one in found[way]))
            for way, name in (("blocks", "in blocks"), ("dense", "whole matrices"))
        ]
        head = length == LENGTHS[-1]
        report.add(Result("RetroMAE's attention", f"memory, {case}", *sides, "MB", same=same, headline=head, **more))
        sides = [
            Side(name, tuple(one["seconds"] for one in found[way]), tuple(one["clock"] for one in found[way]))
            for way, name in (("blocks", "in blocks"), ("dense", "whole matrices"))
        ]
        report.add(Result("RetroMAE's attention", f"time, {case}", *sides, "s", same=same))


def in_a_process(way: str, length: int) -> dict[str, float]:
    """`measure` in a process of its own.

    A machine that is short of memory takes pages away from a process, and its mark hides what it needed; then again.
    """
    for _ in range(ATTEMPTS):
        found = _in_a_process(way, length)
        if found["bytes"] >= STATES * 4 * length * HEADS * WIDTH:
            return found
        note(f"{length} tokens, {way}: the mark rose by {found['bytes']:,.0f} bytes, less than its inputs; again")
    sys.exit(f"{way}: the mark of resident memory does not rise: {ATTEMPTS} times less than the inputs' own bytes")


def _in_a_process(way: str, length: int) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), "--here", way, str(length)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **EXACT})
    if done.returncode:
        sys.exit(f"{way}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(way: str, length: int) -> dict[str, float]:
    """One pass there and back, above what the process had before."""
    passed(way, 64)  # what is loaded and kept by the first one is none of the text's
    # The mark of the whole process stands where the imports have left it: it is set back first.
    before = reset_mark()
    began = time.process_time(), time.perf_counter()
    passed(way, length)
    seconds, clock = time.process_time() - began[0], time.perf_counter() - began[1]
    return {"bytes": high_water() - before, "seconds": seconds, "clock": clock}


def passed(way: str, length: int) -> list[Any]:
    """What comes out, and the gradients of what went in."""
    import numpy as np
    import torch

    from lmk_train.retromae.attention import Sight, blocked_attention, dense_attention
    from lmk_train.retromae.masks import hide_patterns

    torch.set_num_threads(1)
    torch.manual_seed(0)
    draw = np.random.RandomState(0)
    hidden, patterns = hide_patterns(draw.random_sample(length) < 0.7, 0.5, draw)
    sight = Sight((0, length), torch.from_numpy(hidden), torch.from_numpy(patterns))
    states = [torch.randn(length, HEADS, WIDTH, requires_grad=True) for _ in range(3)]
    out = {"blocks": blocked_attention, "dense": dense_attention}[way](*states, sight)
    out.square().sum().backward()
    return [out.detach(), *(state.grad for state in states)]


def difference() -> float:
    """Between both ways, of values and gradients, on a short text."""
    pairs = zip(passed("blocks", 300), passed("dense", 300), strict=True)
    apart = max(float((one - other).abs().max()) for one, other in pairs)
    assert apart < 1e-3, f"the two ways differ by {apart}"
    return apart


if __name__ == "__main__":
    main()
