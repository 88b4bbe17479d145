"""The ``Recorder`` that writes a cell's folder."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmk_experiments.records.atomic import append_line, write_json
from lmk_experiments.records.state import format_seconds

LINE_SECONDS = 30.0
"""Between two lines about the progress, in seconds."""


_SAID = {
    "resumed": "goes on from step {step}",
    "preempted": "told to stop by {signal}; step {step} is saved, and the same command goes on there",
    "already_trained": "was trained already",
    "initialized": "starts from pre-training {pretraining}: its {weights_loaded} weights are loaded, of {weights} here",
    "checkpoint_unreadable": "{path} is damaged and was kept as {kept}",
}


class CellRecorder:
    """Writes what a training or an evaluation reports into its cell's folder.

    Implements ``lmk_core.recording.Recorder``. Progress is a hint and is dropped when it cannot be written; events and
    metrics are not.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = time.monotonic()
        self._first_done: int | None = None

    def event(self, kind: str, **fields: Any) -> None:
        """Append one event; ``fields`` are JSON values."""
        append_line(self.folder / "events.jsonl", {"time": time.time(), "event": kind, **fields})

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Append the values of one step. A value that is not finite is left out and said in an event."""
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        if len(finite) < len(values):
            self.event("not_finite", step=step, names=sorted(set(values) - set(finite)))
        append_line(self.folder / "metrics.jsonl", {"step": step, "time": time.time(), "values": finite})

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        """Say how far the work is; the time left is extrapolated from what this attempt did."""
        if self._first_done is None or done < self._first_done:
            self._first_done, self._started = done, time.monotonic()
        left = self._seconds_left(done, total)
        with contextlib.suppress(OSError):
            write_json(
                self.folder / "progress.json",
                {"done": done, "total": total, "unit": unit, "time": time.time(), "seconds_left": left},
            )

    def _seconds_left(self, done: int, total: int) -> float | None:
        gained = done - (self._first_done or 0)
        elapsed = time.monotonic() - self._started
        return elapsed / gained * (total - done) if gained > 0 else None


class SayingRecorder(CellRecorder):
    """Also prints what happens to the work and, with ``steps``, a line now and then about how far it is."""

    def __init__(self, folder: Path, *, steps: bool = True) -> None:
        super().__init__(folder)
        self._steps = steps
        self._said = -math.inf
        self._loss = ""

    def event(self, kind: str, **fields: Any) -> None:
        super().event(kind, **fields)
        with contextlib.suppress(KeyError):  # of a kind that is not said, or of another work's with other fields
            _say(_SAID[kind].format_map(fields))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        super().metrics(values, step)
        if "train/loss" in values:
            self._loss = f", loss {values['train/loss']:.4g}"

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        super().progress(done, total, unit)
        now = time.monotonic()
        if self._steps and (now - self._said >= LINE_SECONDS or done == total):
            self._said = now
            left = self._seconds_left(done, total)
            rest = "" if left is None or done == total else f", {format_seconds(left)} left"
            _say(f"{unit} {done}/{total}{self._loss}{rest}")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk under the log stops no training
        print(text, file=sys.stderr, flush=True)
