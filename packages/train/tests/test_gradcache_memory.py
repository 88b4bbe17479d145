"""The memory of a step is that of its chunk, not that of its batch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "gradcache_memory.py"


def test_eight_times_the_batch_needs_the_same_memory():
    """The benchmark's own sizes are 256 x 8 and 2048 x 8; these are small enough for every run."""
    spec = importlib.util.spec_from_file_location("gradcache_memory", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    small, large = benchmark.peaks((64, 512), chunk=4096, length=16)
    assert small > 20e6  # there is something to be measured
    assert large < 1.2 * small
