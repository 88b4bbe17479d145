"""Repetitions of several ways in turn, by two clocks; a benchmark's options; and the rate of matrix products."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.result import Missing, Result, Side, to_line

CACHE = Path(os.environ.get("LMK_CACHE", Path.home() / ".cache" / "lmk"))
Shape = tuple[int, int, int]
"""Rows, inner width and columns of a product."""


@dataclass
class Taken:
    """Seconds of each repetition, of the processor (children's included) and of the clock."""

    processor: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)

    def side(self, name: str, processed: int | None = None) -> Side:
        """As one side of a result."""
        return Side(name, tuple(self.processor), tuple(self.clock), processed)

    def add(self, run: Callable[[], Any]) -> Any:
        """Measures one more repetition."""
        began = processor_seconds(), time.perf_counter()
        value = run()
        self.processor.append(processor_seconds() - began[0])
        self.clock.append(time.perf_counter() - began[1])
        return value


def processor_seconds() -> float:
    """What this process and its ended children have used so far."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def interleaved(ways: Mapping[str, Callable[[], Any]], repetitions: int, *, warm: int = 1) -> dict[str, Taken]:
    """Every way in turn, the order reversed every other time; the first ``warm`` rounds are not counted."""
    taken = {name: Taken() for name in ways}
    for number in range(warm + repetitions):
        for name in list(ways) if number % 2 else reversed(ways):
            (taken[name] if number >= warm else Taken()).add(ways[name])
    return taken


class Report:
    """Where a benchmark's results go: to the terminal, and with ``--json`` to a file, line by line."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        if file is not None:
            file.write_text("", encoding="utf-8")

    def add(self, result: Result | Missing) -> None:
        """One result more; what a killed benchmark had measured is there."""
        print(said(result), flush=True)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as out:
                out.write(to_line(result) + "\n")


def said(result: Result | Missing) -> str:
    """A result in a line for the terminal."""
    if isinstance(result, Missing):
        return f"{result.benchmark}: {result.case}: not compared: {result.missing}"
    ratio, ours, peer = result.ratio, result.ours.median, result.peer.median
    reached = "" if result.limit is None else f"; {result.limit / ours:.0%} of what is possible ({result.limit_of})"
    same = f"; {result.same}" if result.same else ""
    shown, word = (ratio.median, ratio.low, ratio.high), "better"
    if ratio.median < 1:
        shown, word = (1 / ratio.median, 1 / ratio.high, 1 / ratio.low), "worse"
    return (
        f"{result.name}: {ours:.3g} and {peer:.3g} {result.unit}, "
        f"{shown[0]:.2f} times {word} ({shown[1]:.2f} to {shown[2]:.2f}){reached}{same}"
    )


def options(description: str | None, *, repetitions: int) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=repetitions)
    parser.add_argument("--quick", action="store_true", help="little of everything, to try it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too, one a line")
    return parser


def matrix_rate(shapes: Sequence[Shape], *, repetitions: int = 15) -> float:
    """Floating-point operations a second of `torch.mm`, the given products one after the other; the best repetition.

    On this process' threads, in float32, and by the processor's seconds, as everything else.
    """
    import torch

    pairs = [(torch.randn(rows, inner), torch.randn(inner, columns)) for rows, inner, columns in shapes]
    best = float("inf")
    for _ in range(repetitions + 1):
        began = time.process_time()
        for left, right in pairs:
            torch.mm(left, right)
        best = min(best, time.process_time() - began)
    return sum(2 * rows * inner * columns for rows, inner, columns in shapes) / best


def layer_shapes(config: Any, rows: int = 4096) -> list[Shape]:
    """The products of one ModernBERT layer on ``rows`` tokens."""
    dim, inner = config.hidden_size, config.intermediate_size
    return [(rows, dim, 3 * dim), (rows, dim, dim), (rows, dim, 2 * inner), (rows, inner, dim)]


def note(what: str) -> None:
    """Says on the error stream what is done now: a run of all benchmarks shows it."""
    print(f"  {what}", file=sys.stderr, flush=True)
