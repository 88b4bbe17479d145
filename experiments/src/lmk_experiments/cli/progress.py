"""What a person sees while jobs run: a live bar on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lmk_experiments.records import Cell
from lmk_experiments.records.state import format_seconds
from lmk_slurm import Job, JobResult

LINE_SECONDS = 20.0
"""Between two lines about a running job where there is no terminal, in seconds."""
SYNC_SECONDS = 30.0
"""Between two syncs while a job runs, in seconds."""


class Display:
    """Shows the jobs of a grid. ``after`` is called when one ended and now and then while one runs."""

    def __init__(self, jobs: Sequence[Job], after: Callable[[], None]) -> None:
        self.cells = {job.name: _cells(job) for job in jobs}
        self.after = after
        self.started: dict[str, float] = {}
        self.ended = {job.name for job in jobs if not job.missing()}
        self.done = set(self.ended)
        self.console = Console()
        self.live = self.console.is_terminal
        self.last_line = self.last_sync = time.monotonic()
        self.bars = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[say]}"), TimeElapsedColumn(),
            console=self.console, transient=True, disable=not self.live,
        )  # fmt: skip
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        self.bars.start()
        self.all = self.bars.add_task("all jobs", total=len(self.cells), completed=len(self.ended), say=self._count())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def change(self, name: str, result: JobResult) -> None:
        """A job's result changed."""
        if result.state == "running" and name not in self.started:
            self.started[name] = time.monotonic()
            self.tasks[name] = self.bars.add_task(name, total=None, say="starting")
            if not self.live:
                self._say(f"{name}: started ({self._count()})")
        elif result.state.ended and name not in self.ended:
            self.ended.add(name)
            if result.state == "done":
                self.done.add(name)
            if name in self.tasks:
                self.bars.remove_task(self.tasks.pop(name))
            took = format_seconds(time.monotonic() - self.started[name]) if name in self.started else ""
            detail = f" after {took}" if took else f" ({result.reason})" if result.reason else ""
            self.bars.update(self.all, completed=len(self.ended), say=self._count())
            self._say(f"{name}: {result.state}{detail} ({self._count()})")
            self.after()

    def tick(self) -> None:
        """Refresh; called a few times a second."""
        now = time.monotonic()
        line_due = not self.live and now - self.last_line > LINE_SECONDS
        for name in self.started.keys() - self.ended:
            done, total, text = _progress(self.cells[name])
            if self.live:
                self.bars.update(self.tasks[name], completed=done, total=total or None, say=text)
            elif line_due and total:
                self._say(f"{name}: {text}")
        if line_due:
            self.last_line = now
        if now - self.last_sync > SYNC_SECONDS and self.started.keys() - self.ended:
            self.last_sync = now
            self.after()

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _count(self) -> str:
        return f"{len(self.done)} of {len(self.cells)} jobs done"


def _cells(job: Job) -> list[Cell]:
    return [Cell(Path(folder)) for folder in job.argument.split(os.pathsep)]


def _progress(cells: Sequence[Cell]) -> tuple[int, int, str]:
    """Done, total and words of the cell that a job is at, as of its last word."""
    for position, cell in enumerate(cells):
        if cell.done() is not None:
            continue
        state = cell.state()
        which = f"reading {position + 1} of {len(cells)}, " if len(cells) > 1 else ""
        if state.name != "running" or not state.total:
            return 0, 0, f"{which}starting"
        left = "" if state.seconds_left is None else f", {format_seconds(state.seconds_left)} left"
        return state.done, state.total, f"{which}{state.unit} {state.done}/{state.total}{left}"
    return 0, 0, "finishing"
