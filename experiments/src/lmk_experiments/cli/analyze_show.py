"""What a person sees of an analysis: progress, the few numbers, where the files are."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lmk_experiments.cli.columns import columns
from lmk_experiments.records.state import format_seconds

if TYPE_CHECKING:
    from lmk_eval.analyses import Analysis

LINE_SECONDS = 10.0
"""Between two lines of progress where there is no terminal, in seconds; on one it is a tenth of a second."""


class Progress:
    """A recorder that tells on stderr how far the work is: a line that is written over, or now and then a new one."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._told = self._began = time.monotonic()
        self._unit = ""
        self._shown = False

    def event(self, kind: str, **fields: Any) -> None:
        """Tell what changes how long the work takes."""
        if kind == "smaller_batches":
            self.close()
            typer.echo(f"smaller batches: {fields.get('reason', '')}", err=True)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """An analysis has none by step."""

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        """Tell it, if it is time to."""
        now = time.monotonic()
        if unit != self._unit:
            self._unit, self._began = unit, now
        if now - self._told < (0.1 if self._live else LINE_SECONDS):
            return
        self._told = now
        left = ""
        if 0 < done < total:
            left = f", {format_seconds((now - self._began) * (total - done) / done)} left"
        text = f"{unit} {done:,}" + (f"/{total:,}{left}" if total else "")
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._shown = True
        else:
            typer.echo(text, err=True)

    def close(self) -> None:
        """End the line that is written over."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            self._shown = False


def analyzed(make: Callable[[Progress], Analysis], out: Path, *, goes_on: bool = False) -> None:
    """Make an analysis, write it, and print its numbers.

    Args:
        make: gets the recorder that tells the progress.
        out: the folder for its files; looked at before the work.
        goes_on: whether the same command would go on where it was stopped.
    """
    from lmk_eval.analyses.figures.place import check_folder

    folder = out.expanduser()
    check_folder(folder)
    progress = Progress()
    with _stoppable(progress, goes_on):
        analysis = make(progress)
        progress.close()
        from lmk_eval.analyses import write_analysis

        paths = write_analysis(analysis, folder)
    typer.echo(summary_text(analysis))
    typer.echo("".join(f"\n{path}" for path in paths))


def summary_text(analysis: Analysis) -> str:
    """The summary as columns."""
    keys = list(dict.fromkeys(key for line in analysis.summary for key in line))
    rows = [[_shown(line.get(key)) for key in keys] for line in analysis.summary]
    shown = columns([[key.replace("_", " ") for key in keys], *rows])
    cut = analysis.tables.get("cut", [])
    return shown if not cut else f"{shown}\n\n{_cut_text(cut)}"


def _cut_text(cut: Sequence[Mapping[str, Any]]) -> str:
    """What each maximum length cuts of each data set: a line a data set, a column a length."""
    lengths = list(dict.fromkeys(row["max_length"] for row in cut))
    lines = [["cut at a maximum length of", *(f"{length:,}" for length in lengths)]]
    for name in dict.fromkeys(row["data"] for row in cut):
        held = {row["max_length"]: row for row in cut if row["data"] == name}
        for key, said in (("texts_cut", "texts cut"), ("tokens_lost", "tokens lost")):
            lines.append([f"{name}: {said}", *(f"{100 * held[length][key]:.1f}%" for length in lengths)])
    return columns(lines)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


@contextlib.contextmanager
def _stoppable(progress: Progress, goes_on: bool) -> Generator[None]:
    """Ctrl-C ends the command with 130 and says what it leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        # Said here: typer turns a KeyboardInterrupt into an exit code before anybody else sees it.
        progress.close()
        kept = "the same command goes on where it stopped" if goes_on else "nothing was written"
        typer.echo(f"interrupted; {kept}", err=True)
        raise typer.Exit(130) from None
    finally:
        progress.close()
