"""A thread that writes what a job uses to ``system.jsonl`` now and then; weeks of it stay small."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from lmk_experiments.records.atomic import append_line, read_lines
from lmk_experiments.records.shapes import METRICS
from lmk_experiments.usage.gpus import Gpus, library
from lmk_experiments.usage.host import Host

FILE = "system.jsonl"
SECONDS = 30.0
"""Between two samples of a young cell."""
FIRST_SECONDS = 2.0
"""To the first sample of a start, so that a short cell has one too."""
SHARE = 500
"""An old cell is sampled so often in each of its ages: about 500 samples in 4 hours, and 2,400 in a week."""


def pause(age: float) -> float:
    """Seconds to the next sample of a cell whose first one is ``age`` seconds old.

    >>> pause(60), pause(7 * 24 * 3600)
    (30.0, 1209.6)
    """
    return max(SECONDS, age / SHARE)


@contextlib.contextmanager
def sampled(folder: Path) -> Generator[None]:
    """While this lasts, ``system.jsonl`` in ``folder`` gets a line ``{"step", "time", "values"}`` for each sample.

    A sample's step is its age in seconds, so that samples of all starts of a cell are one curve. Only this machine is
    measured, that of a training's first rank. Nothing that goes wrong here is raised.
    """
    stop = threading.Event()
    # Imported here: a process that is forked while another thread imports could not import it any more.
    thread = threading.Thread(target=_run, args=(folder, stop, library()), name="usage", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(1.0)


def _run(folder: Path, stop: threading.Event, nvml: Any | None) -> None:
    with contextlib.suppress(Exception):  # a full disk, a machine that cannot be measured: nothing that the work needs
        began, last = _first_and_last(folder)
        host, gpus = Host(folder), Gpus(nvml)
        wait, ended = FIRST_SECONDS, False
        while not ended:
            ended = stop.wait(wait)
            now = time.time()
            began = now if began is None else began
            step = max(round(now - began), last + 1)
            # The last moments of a start that has been sampled say nothing new.
            if not ended or wait == FIRST_SECONDS:
                values = {name: round(value, 2) for name, value in {**host.measure(), **gpus.measure()}.items()}
                append_line(folder / FILE, {"step": step, "time": now, "values": values})
                last = step
            wait = pause(now - began)


def _first_and_last(folder: Path) -> tuple[float | None, int]:
    """When the cell's first sample was taken, and the last one's step."""
    lines = read_lines(folder / FILE, METRICS)
    return (lines[0]["time"] - lines[0]["step"], lines[-1]["step"]) if lines else (None, -1)
