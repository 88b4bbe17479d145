"""What each trainer's own process measures and prints. Nothing but the standard library and torch: peers import it."""

from __future__ import annotations

import functools
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any


class Meter:
    """Seconds of each step, of the processor and of the clock, its loss, and the tokens that went through the encoder.

    Seconds are from the end of a step to the end of the next: loading, tokenizing and logging are in them.
    """

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.ends: list[tuple[float, float]] = []
        self.tokens = self.padded = 0
        self.memory_before = 0

    def begin(self) -> None:
        """Before the first step."""
        self.memory_before = resident()
        self.ends = [(time.process_time(), time.perf_counter())]

    def step(self) -> None:
        """At the end of a step."""
        self.ends.append((time.process_time(), time.perf_counter()))

    def watch(self, encoder: Any) -> None:
        """Counts the tokens of what an encoder is given from now on, with padding and without."""

        forward = encoder.forward

        @functools.wraps(forward)
        def counted(*args: Any, **options: Any) -> Any:
            mask = options.get("attention_mask")
            if mask is not None and encoder.training:
                self.tokens += int(mask.sum())
                self.padded += mask.numel()
            return forward(*args, **options)

        # Not a hook: Sentence Transformers calls the method.
        encoder.forward = counted

    def report(self, **more: Any) -> None:
        """Prints everything on one line, which the caller finds by its first word."""
        pairs = list(zip(self.ends, self.ends[1:], strict=False))
        values = {
            "processor": [after[0] - before[0] for before, after in pairs],
            "clock": [after[1] - before[1] for before, after in pairs],
            "losses": self.losses,
            "padding": 1 - self.tokens / self.padded if self.padded else 0.0,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self.memory_before,
            **more,
        }
        print("MEASURED " + json.dumps(values), flush=True)


def resident() -> int:
    """Bytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def settings() -> dict[str, Any]:
    """What the caller wants: the JSON file that is the only argument."""
    return json.loads(Path(sys.argv[1]).read_text())
