"""The verb of tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, GridArgument, PrefixOption, RootOption, StoreOption, real_root

if TYPE_CHECKING:
    from lmk_experiments.mirror.read import Seen
    from lmk_experiments.records import GridRecord
    from lmk_experiments.tables import Comparing, Origin, Published, Source, Table


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(table)


def table(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    store: StoreOption = None,
    source: Annotated[
        str, typer.Option("--from", metavar="mlflow|records", help="Where the numbers are read. Both agree.")
    ] = "mlflow",
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="md|tex|csv|html|json", help="Default: as --out ends, else Markdown."),
    ] = None,
    per_task: Annotated[
        bool, typer.Option("--per-task", help="A table for each suite: every task, and every language of it.")
    ] = False,
    differences: Annotated[
        bool, typer.Option("--differences", help="The difference to the baseline row beside each value.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(metavar="published", help="The published value, and ours minus it, beside each value."),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="The published numbers alone; nothing has to be run.")
    ] = False,
    significance: Annotated[
        bool | None,
        typer.Option(
            "--significance/--no-significance",
            help="Test every row against the baseline, query by query, and mark (†) what is no noise. On where a row "
            "is the baseline.",
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(metavar="P", help="The chance of any false mark in a column, for --significance.")
    ] = 0.05,
    out: Annotated[Path | None, typer.Option("--out", help="Write it to this file instead.")] = None,
    prefix: PrefixOption = None,  # noqa: ARG001 - its callback uses it
) -> None:
    """Print the ablation table of a grid: best bold, second underlined, unfinished cells by their state.

    † marks what differs from the baseline row by more than noise: a paired randomization test over queries, corrected
    for the comparisons of a column and explained under the table. csv and json have p-values and 95% intervals.
    """
    from lmk_experiments.cli.grid_names import grid_name
    from lmk_experiments.records.atomic import write_text
    from lmk_experiments.tables import Comparing, load_published, render
    from lmk_experiments.tables.formats import chosen_format

    if source not in ("mlflow", "records"):
        raise ValueError(f"--from {source}: valid: mlflow, records")
    if not 0 < level < 1:
        raise ValueError(f"--level {level:g}: a probability between 0 and 1 is needed, 0.05 for example")
    if significance and published:
        raise ValueError("--significance: published numbers have no scores by query; leave out one of the two")
    if against not in (None, "published"):
        raise ValueError(f"--against {against}: valid: published")
    chosen = chosen_format(form, out)
    name = grid_name(grid)
    if out is not None and out.is_dir():
        raise ValueError(f"--out {out}: this is a folder; name a file, for example {out / f'{name}.{chosen}'}")
    asked = None if significance is False else Comparing(level, intervals=chosen in ("csv", "json"))
    if published:
        tables = _published(grid, name, per_task=per_task)
    else:
        beside = load_published(name) if against else None
        tables = _tables(
            name,
            real_root(root),
            store,
            source,
            _maker(beside, per_task=per_task, tests=asked, always=bool(significance)),
        )
    on_terminal = out is None and sys.stdout.isatty()
    text = render([_with_differences(one) for one in tables] if differences else tables, chosen, terminal=on_terminal)
    if out is None:
        typer.echo(text.removesuffix("\n") if chosen != "md" else text)
    else:
        write_text(out, text if chosen != "md" else text + "\n")
        typer.echo(f"written to {out}")


def table_text(grid: str, root: Path, source: Origin = "mlflow") -> str:
    """A grid's table in Markdown, from MLflow where that can be used, else from the records."""
    from lmk_experiments.tables import Comparing, render

    made = _tables(grid, root, None, source, _maker(None, per_task=False, tests=Comparing()))
    return render(made, "md", terminal=sys.stdout.isatty())


_Maker = Callable[["GridRecord", "Source"], "list[Table]"]


def _maker(published: Published | None, *, per_task: bool, tests: Comparing | None, always: bool = False) -> _Maker:
    """Unless ``always``, only a table with a baseline is tested."""
    from lmk_experiments.tables import collect, has_baseline, task_tables

    def make(record: GridRecord, source: Source) -> list[Table]:
        wanted = tests if always or has_baseline(record) else None
        if per_task:
            return task_tables(record, source, published=published, tests=wanted)
        return [collect(record, source, published=published, tests=wanted)]

    return make


def _tables(grid: str, root: Path, store: str | None, source: str, make: _Maker) -> list[Table]:
    """From MLflow, synced first unless all is there; where it cannot be used that is said, and the records are read."""
    from lmk_experiments.mirror import LockedError, StoreError
    from lmk_experiments.mirror.collected import complete
    from lmk_experiments.records import load_grid
    from lmk_experiments.records.figures import figures_text, has_table
    from lmk_experiments.tables import load_source
    from lmk_experiments.tables.mirrored import sync_with_tables

    held = load_grid(root, grid)
    if not has_table(held):
        raise ValueError(f"{grid} has no table: nothing is evaluated. Its figures:\n{figures_text(root, held)}")

    def read(origin: Origin, seen: Seen | None = None) -> list[Table]:
        record = load_grid(root, grid)
        return make(record, load_source(root, record, origin, uri=store, seen=seen))

    if source == "mlflow":
        try:
            seen = complete(root, held, store)
            if seen is None:
                report = sync_with_tables(root, [grid], uri=store)
                for warning in report.warnings:
                    typer.echo(f"warning: {warning}", err=True)
                seen = report.seen
            return read("mlflow", seen)
        except (StoreError, LockedError) as error:
            typer.echo(f"warning: MLflow cannot be used ({error}); the table is read from the records", err=True)
    return read("records")


def _published(typed: str, name: str, *, per_task: bool) -> list[Table]:
    from lmk_experiments.tables import load_published, published_table, published_task_tables
    from lmk_experiments.tables.load import load_spec_of

    spec, title = load_spec_of(typed)
    published = load_published(name)
    if per_task:
        return published_task_tables(spec, published, name, title)
    return [published_table(spec, published, name, title)]


def _with_differences(table: Table) -> Table:
    from dataclasses import replace

    return replace(table, differences=True)
