"""Runs benchmarks one after the other: with a limit each, kept when they are done, going on when one fails."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.catalogue import Benchmark
from suite.result import Missing, Result, from_json, read_results

SAID_EVERY = 60.0
"""Seconds between two words on what runs now, where nobody looks at a terminal."""
NO_GPU = "not run: no CUDA device"


@dataclass(frozen=True)
class Part:
    """What came of one benchmark: ``done``, ``failed``, or ``not run``."""

    name: str
    state: str
    seconds: float = 0.0
    reason: str = ""
    results: list[Result | Missing] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "results": [one.to_json() for one in self.results]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Part:
        """The inverse of `to_json`."""
        return cls(**{**value, "results": [from_json(one) for one in value["results"]]})


class Kept:
    """What is done of a run that has not ended: a file each, in a folder of the same code and machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, name: str) -> Part | None:
        """What came of it, if it has ended."""
        file = self._file(name)
        return Part.from_json(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None

    def keep(self, part: Part) -> None:
        """Written whole or not at all: a run may be killed at any time."""
        new = self._file(part.name).with_suffix(".new")
        new.write_text(json.dumps(part.to_json(), ensure_ascii=False), encoding="utf-8")
        new.replace(self._file(part.name))

    def clear(self, names: Iterable[str]) -> None:
        """The next run begins anew with these."""
        for name in names:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.json"


class Runner:
    """The run of some benchmarks.

    Args:
        kept: Where what has ended is kept.
        scripts: The folder of the programs.
        minutes: What has not begun by then is not run, and what runs then is ended.
        cuda: Whether there is a GPU; asked once, if anything needs it.
        options: Of the run, for the benchmarks that are passed them.
        say: Hears of the progress.
    """

    def __init__(
        self,
        kept: Kept,
        scripts: Path,
        *,
        minutes: float,
        cuda: Callable[[], bool],
        options: dict[str, str] | None = None,
        quick: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.kept, self.scripts, self.cuda, self.options, self.quick = kept, scripts, cuda, options or {}, quick
        self.say = say or (lambda text: print(text, flush=True))
        self.until = time.monotonic() + 60 * minutes
        self.minutes = minutes

    def run(self, benchmarks: Sequence[Benchmark]) -> list[Part]:
        """Every one of them, whatever comes of the others."""
        parts: list[Part] = []
        for number, benchmark in enumerate(benchmarks):
            head = f"[{number + 1}/{len(benchmarks)}] {benchmark.name}"
            part = self.kept.find(benchmark.name)
            if part is not None:
                self.say(f"{head}: kept from before ({part.seconds:.0f} s)")
            else:
                left = _left(parts, benchmarks[number:], benchmarks)
                self.say(f"{head}: started; about {_minutes(left)} left")
                part = self._one(benchmark, head, left)
                if part.state == "done":  # whatever failed is tried again by the next call
                    self.kept.keep(part)
                self.say(f"{head}: {part.state} after {part.seconds:.0f} s{part.reason and ': ' + part.reason}")
                if part.state == "failed":
                    self.say(f"{head}: all that it said is in {self._stem(benchmark).with_suffix('.log')}")
            parts.append(part)
        return parts

    def _one(self, benchmark: Benchmark, head: str, left: float) -> Part:
        if benchmark.gpu and not self.cuda():
            return Part(benchmark.name, "not run", reason=NO_GPU)
        limit = min(benchmark.limit, self.until - time.monotonic())
        if limit <= 0:
            return Part(benchmark.name, "not run", reason=f"not run: the {self.minutes:g} minutes of the run were over")
        stem = self._stem(benchmark)
        out, log = stem.with_suffix(".jsonl"), stem.with_suffix(".log")
        out.unlink(missing_ok=True)
        command = [sys.executable, str(self.scripts / benchmark.script), *benchmark.arguments, "--json", str(out)]
        command += [word for key in benchmark.passed if key in self.options for word in (f"--{key}", self.options[key])]
        command += ["--quick"] if self.quick else []
        began = time.monotonic()
        with log.open("w", encoding="utf-8") as file:
            # A session of its own: the limit and Ctrl-C end its children too.
            child = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True, env=_environment(limit))
            try:
                reason = self._wait(child, began, limit, head, left, log)
            except BaseException:
                _end(child)
                raise
        seconds = time.monotonic() - began
        results = read_results(out)
        if reason:
            return Part(benchmark.name, "failed", seconds, reason, results)
        return Part(benchmark.name, "done", seconds, results=results)

    def _stem(self, benchmark: Benchmark) -> Path:
        return self.kept.folder / benchmark.name.replace(" ", "-")

    def _wait(self, child: subprocess.Popen, began: float, limit: float, head: str, left: float, log: Path) -> str:
        """Until it ends; the reason of its failure, or nothing."""
        tell = 1.0 if sys.stdout.isatty() else SAID_EVERY
        while True:
            now = time.monotonic() - began
            try:
                code = child.wait(timeout=max(0.01, min(tell, limit - now)))
                break
            except subprocess.TimeoutExpired:
                now = time.monotonic() - began
            if now >= limit:
                _end(child)
                return f"killed at its limit of {limit:.0f} s; {_last(log)}"
            word = f"{head}: {now:.0f} s; about {_minutes(max(0.0, left - now))} left; {_last(log)}"
            if sys.stdout.isatty():
                print(f"\r\033[K{word[:110]}", end="", flush=True)
            else:
                self.say(word)
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)
        return f"exit code {code}; {_last(log)}" if code else ""


def _left(done: Sequence[Part], rest: Sequence[Benchmark], benchmarks: Sequence[Benchmark]) -> float:
    """Seconds, at the speed of what was done so far."""
    expected = {benchmark.name: benchmark.expected for benchmark in benchmarks}
    measured = [part for part in done if part.state == "done"]
    known = sum(expected[part.name] for part in measured)
    speed = sum(part.seconds for part in measured) / known if known else 1.0
    return speed * sum(one.expected for one in rest if not one.gpu)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _last(log: Path) -> str:
    """The last line that it has written."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


def _end(child: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _environment(limit: float) -> dict[str, str]:
    """One thread, no network, threads that wait without spinning; and the limit, for who can do less."""
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return {**os.environ, **one, **offline, "OMP_WAIT_POLICY": "PASSIVE", "BENCH_SECONDS": f"{limit:.0f}"}
