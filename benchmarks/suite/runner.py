"""Runs benchmarks one after the other: with a limit each, kept when they are done, going on when one fails."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from suite.catalogue import Benchmark
from suite.parts import NO_GPU, Kept, Part
from suite.result import read_results

SAID_EVERY = 60.0
"""Seconds between two words on what runs now, where nobody looks at a terminal."""
OLDEST = 6 * 3600.0
"""Seconds after which what was kept is measured again: a machine is not the same all day."""


class SourcesChangedError(RuntimeError):
    """The sources are not those with which the run began."""


class Runner:
    """The run of some benchmarks.

    Args:
        kept: Where what has ended is kept.
        scripts: The folder of the programs.
        minutes: Of all that have no minutes of their own, in all calls of the run: what could not end by then is not
            run, and what runs then is ended.
        cuda: Whether there is a GPU; asked once, if anything needs it.
        options: Of the run, for the benchmarks that are passed them.
        unchanged: Whether the sources are still those with which the run began.
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
        unchanged: Callable[[], bool] = lambda: True,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.kept, self.scripts, self.options, self.quick = kept, scripts, options or {}, quick
        self.say = say or (lambda text: print(text, flush=True))
        self.cuda, self.unchanged = functools.cache(cuda), unchanged
        self.minutes, self.call = minutes, time.time()

    def run(self, benchmarks: Sequence[Benchmark]) -> list[Part]:
        """Every one of them, whatever comes of the others.

        Raises:
            SourcesChangedError: they were edited meanwhile; what ran then is not kept.
        """
        # All that was kept first: its seconds are gone, whatever its place.
        parts = {one.name: part for one in benchmarks if (part := self._before(one.name))}
        for number, benchmark in enumerate(benchmarks):
            head = f"[{number + 1}/{len(benchmarks)}] {benchmark.name}"
            if benchmark.name in parts:
                self.say(f"{head}: kept from before ({parts[benchmark.name].seconds:.0f} s)")
                continue
            part = parts[benchmark.name] = self._anew(benchmark, head, parts, benchmarks)
            if part.state == "done":  # whatever failed is tried again by the next call
                self.kept.keep(part)
                # What was kept of these may have lacked what is there only now.
                void = [one.name for one in benchmarks if one.after == benchmark.name]
                self.kept.clear(void)
                parts = {name: one for name, one in parts.items() if name not in void}
        return [parts[benchmark.name] for benchmark in benchmarks]

    def _before(self, name: str) -> Part | None:
        """What an earlier call has kept of it, unless that is too old."""
        part = self.kept.find(name)
        if part is None or time.time() - part.began <= OLDEST:
            return part
        self.say(f"{name}: what was kept is {(time.time() - part.began) / 3600:.1f} hours old, and dropped")
        self.kept.clear([name])
        return None

    def _anew(self, benchmark: Benchmark, head: str, done: Mapping[str, Part], benchmarks: Sequence[Benchmark]) -> Part:
        reason = self._refused(benchmark, done, benchmarks)
        if reason:
            self.say(f"{head}: {reason}")
            return Part(benchmark.name, "not run", reason=reason)
        rest = [one for one in benchmarks if one.name not in done]
        cuda = any(one.gpu for one in rest) and self.cuda()
        left = _speed(done, benchmarks) * sum(one.expected for one in rest if cuda or not one.gpu)
        self.say(f"{head}: started; about {_minutes(left)} left")
        limit = benchmark.limit if benchmark.apart else min(benchmark.limit, self._free(done, benchmarks))
        part = self._one(benchmark, head, left, limit)
        if not self.unchanged():
            raise SourcesChangedError(
                f"the sources were edited while {benchmark.name} ran: the same command now begins a run of the new ones"
            )
        self.say(f"{head}: {part.state} after {part.seconds:.0f} s{part.reason and ': ' + part.reason}")
        if part.state == "failed":
            self.say(f"{head}: all that it said is in {self._stem(benchmark).with_suffix('.log')}")
        return part

    def _refused(self, benchmark: Benchmark, done: Mapping[str, Part], benchmarks: Sequence[Benchmark]) -> str:
        """Why it is not begun, or nothing."""
        if benchmark.gpu and not self.cuda():
            return NO_GPU
        if benchmark.apart:
            return ""
        free, takes = self._free(done, benchmarks), benchmark.expected * _speed(done, benchmarks)
        if free <= 0:
            return f"not run: the {self.minutes:g} minutes of the run were over"
        if takes > free:
            return f"not run: it takes about {_minutes(takes)}, and {_minutes(free)} of {self.minutes:g} min were left"
        return ""

    def _free(self, done: Mapping[str, Part], benchmarks: Sequence[Benchmark]) -> float:
        """Seconds of the run's minutes that are left; those of kept parts are gone too."""
        return 60 * self.minutes - counted(done.values(), benchmarks)

    def _one(self, benchmark: Benchmark, head: str, left: float, limit: float) -> Part:
        stem = self._stem(benchmark)
        out, log = stem.with_suffix(".jsonl"), stem.with_suffix(".log")
        out.unlink(missing_ok=True)
        command = [sys.executable, str(self.scripts / benchmark.script), *benchmark.arguments, "--json", str(out)]
        command += [word for key in benchmark.passed if key in self.options for word in (f"--{key}", self.options[key])]
        command += ["--quick"] if self.quick else []
        load, at, began = os.getloadavg()[0], time.time(), time.monotonic()
        with log.open("w", encoding="utf-8") as file, _session(command, file, _environment(limit)) as child:
            reason = self._wait(child, began, limit, head, left, log)
        seconds = time.monotonic() - began
        try:
            results = read_results(out)
        except (ValueError, KeyError, TypeError) as error:  # such as a last line that was cut by a full disk
            reason, results = reason or f"{out.name} can't be read: {error}", []
        state = "failed" if reason else "done"
        return Part(benchmark.name, state, seconds, reason, results, began=at, load=load, call=self.call)

    def _stem(self, benchmark: Benchmark) -> Path:
        return self.kept.folder / benchmark.name.replace(" ", "-")

    def _wait(
        self, child: subprocess.Popen[bytes], began: float, limit: float, head: str, left: float, log: Path
    ) -> str:
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


def counted(parts: Iterable[Part], benchmarks: Sequence[Benchmark]) -> float:
    """Seconds of those parts that have no minutes of their own."""
    apart = {benchmark.name for benchmark in benchmarks if benchmark.apart}
    return sum(part.seconds for part in parts if part.name not in apart)


def _speed(done: Mapping[str, Part], benchmarks: Sequence[Benchmark]) -> float:
    """How many times the expected seconds was taken so far; what a GPU or a network does says nothing of that."""
    expected = {benchmark.name: benchmark.expected for benchmark in benchmarks if not benchmark.apart}
    measured = [part for part in done.values() if part.state == "done" and part.name in expected]
    known = sum(expected[part.name] for part in measured)
    return sum(part.seconds for part in measured) / known if known else 1.0


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _last(log: Path) -> str:
    """The last line that it has written."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


@contextlib.contextmanager
def _session(command: list[str], log: TextIO, environment: dict[str, str]) -> Generator[subprocess.Popen[bytes]]:
    """The command in a session of its own, all of which ends with the context, or with this process however it ends."""
    child = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    watcher = None
    try:
        # Its input is closed by the kernel when this process is killed, as by SIGKILL, which nothing can handle.
        kill = ["sh", "-c", 'cat; kill -s KILL -- "-$0"', str(child.pid)]
        null = subprocess.DEVNULL
        watcher = subprocess.Popen(kill, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)
        yield child
    finally:
        _end(child)
        if watcher is not None:
            _end(watcher)
            assert watcher.stdin is not None
            watcher.stdin.close()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends its whole session: what it has started may still run where it has ended itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def exit_on_signals() -> None:
    """SIGTERM, and SIGHUP of a dropped connection, end the run as Ctrl-C does; ``nohup`` ignores SIGHUP on purpose."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda got, _: sys.exit(128 + got))


def _environment(limit: float) -> dict[str, str]:
    """One thread, no network, threads that wait without spinning; and the limit, for who can do less.

    Nothing of the user's own settings of ours and of MLflow: they may name a team's store and server.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("LMK_CACHE", "LMK_SHARED") or not name.startswith(("LMK_", "MLFLOW_"))
    }
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    offline["MLFLOW_DISABLE_TELEMETRY"] = "true"
    return {**kept, **one, **offline, "OMP_WAIT_POLICY": "PASSIVE", "BENCH_SECONDS": f"{limit:.0f}"}
