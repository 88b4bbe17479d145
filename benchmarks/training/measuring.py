"""What each trainer's own process measures and prints. Nothing but the standard library and torch: peers import it."""

from __future__ import annotations

import functools
import json
import sys
import time
from pathlib import Path
from typing import Any


class Meter:
    """Seconds of each step, of the processor and of the clock, its loss, and the tokens that went through the encoder.

    Seconds are from the end of a step to the end of the next: loading, tokenizing and logging are in them. Memory is
    the most that was resident from the first step to the last, above what was before: without imports and saving.
    """

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.ends: list[tuple[float, float]] = []
        self.tokens = self.padded = 0
        self.memory = self.memory_before = 0

    def begin(self) -> None:
        """Before the first step."""
        self.memory_before = reset_mark()
        self.ends = [(time.process_time(), time.perf_counter())]

    def step(self) -> None:
        """At the end of a step."""
        self.memory = high_water() - self.memory_before
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
            "memory": self.memory,
            **more,
        }
        print("MEASURED " + json.dumps(values), flush=True)


def reset_mark() -> int:
    """Sets the mark of the process' resident memory back to what is resident now, and gives these bytes.

    `getrusage` has a mark too, but that can't be set back, and a child begins with its parent's.
    """
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return high_water()


def high_water() -> int:
    """The most bytes that were resident since the mark was set back."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def settings() -> dict[str, Any]:
    """What the caller wants: the JSON file that is the only argument."""
    return json.loads(Path(sys.argv[1]).read_text())
