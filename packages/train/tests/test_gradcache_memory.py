"""The memory of a step is that of its chunk, not that of its batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "gradcache_memory.py"


def peak(rows: int, chunk: int) -> int:
    """Bytes above the process's own, of one step in a process of its own."""
    command = [sys.executable, str(BENCHMARK), "--one", str(rows), "--chunk", str(chunk), "--length", "16"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_eight_times_the_batch_needs_the_same_memory():
    """`benchmarks/gradcache_memory.py` measures 2048 x 8 against 256 x 8; these are small enough for every run."""
    assert peak(512, chunk=8192) < 1.2 * peak(64, chunk=8192)
