"""The ``Recorder`` that writes a cell's folder."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmk_experiments.records.atomic import append_line, write_json


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
        gained = done - self._first_done
        elapsed = time.monotonic() - self._started
        left = elapsed / gained * (total - done) if gained > 0 else None
        with contextlib.suppress(OSError):
            write_json(
                self.folder / "progress.json",
                {"done": done, "total": total, "unit": unit, "time": time.time(), "seconds_left": left},
            )
