"""Peak memory of one step at two batch sizes and one chunk: it should be the chunk's, whatever the batch.

Run: ``python benchmarks/gradcache_memory.py [--chunk TOKENS] [--rows SMALL LARGE] [--length TOKENS] [--whole]``.
Printed is the high-water mark of the resident memory above what the process had before the first batch was made. With
``--whole`` the same without chunks, for comparison.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

GROUP = 8
"""Passages a row."""

EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""The C library gives freed memory back at once, so that the mark is what was needed and not how it was cut up."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunk", type=int, default=16_384)
    parser.add_argument("--rows", type=int, nargs=2, default=(256, 2048))
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(*measure(given.rows, given.chunk or None, given.length))
        return
    print(f"chunk of {given.chunk} tokens, texts of up to {given.length}")
    for name, chunk in (
        {"in chunks": given.chunk, "whole graph": 0}.items() if given.whole else [("in chunks", given.chunk)]
    ):
        small, large = peaks(given.rows, chunk, given.length)
        sizes = " and ".join(
            f"{rows} x {GROUP}: {peak / 1e6:.1f} MB" for rows, peak in zip(given.rows, (small, large), strict=True)
        )
        print(f"{name}: {sizes}; ratio {large / small:.3f}")


def peaks(rows: tuple[int, int], chunk: int, length: int) -> list[int]:
    """`measure` in a process of its own; a chunk of 0 is the whole graph."""
    numbers = [str(number) for number in (*rows, chunk, length)]
    command = [sys.executable, str(Path(__file__)), "--here", "--rows", *numbers[:2]]
    command += ["--chunk", numbers[2], "--length", numbers[3]]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **EXACT})
    return [int(number) for number in done.stdout.split()]


def measure(rows: tuple[int, int], chunk_tokens: int | None, length: int) -> list[int]:
    """Bytes that one step needs above what the process had before, the smaller batch first: the mark only rises."""
    step = make_step(chunk_tokens)
    step(make_texts(4, length), 4)  # what is made once, for any batch
    before, found = _resident(), []
    for count in sorted(rows):
        step(make_texts(count, length), count)
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
    return found


def make_step(chunk_tokens: int | None):
    """A step of a small encoder: forward, loss, backward."""
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    from lmk_core.encoders import PooledEncoder
    from lmk_core.layouts.batch import pad_layouts
    from lmk_core.pooling import PoolingConfig
    from lmk_train.config import LossConfig
    from lmk_train.gradcache import GradientEngine
    from lmk_train.loss import ContrastiveObjective, Targets

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=500,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    encoder = PooledEncoder(ModernBertModel(config), PoolingConfig("mean")).train()
    objective = ContrastiveObjective(LossConfig())
    engine = GradientEngine(lambda texts: encoder(**pad_layouts(texts, 0)), list(encoder.parameters()), chunk_tokens)

    def step(texts, rows: int) -> None:
        sizes = torch.full((rows,), GROUP)
        keys = torch.arange(rows * GROUP)
        targets = Targets(sizes, None, torch.zeros(rows, dtype=torch.bool), keys[:rows], keys)
        engine.run(texts, lambda vectors: objective(vectors[:rows], vectors[rows:], targets).loss)

    return step


def make_texts(rows: int, length: int):
    """Ragged texts of 3 to ``length`` tokens: the queries, then the passages."""
    import numpy as np

    from lmk_core.layouts import Layouts

    draw = np.random.RandomState(0)
    lengths = draw.randint(3, length + 1, rows * (1 + GROUP))
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = draw.randint(1, 500, bounds[-1]).astype(np.int32)
    pooled = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
    return Layouts(ids, bounds, pooled, bounds)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
