"""The verb of reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, GridArgument, RootOption, real_root

if TYPE_CHECKING:
    from lmk_experiments.costs import PlanCosts
    from lmk_experiments.records import GridRecord


def register(app: typer.Typer) -> None:
    """Add the verb of this module to ``app``."""
    app.command()(report)


def report(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write; default: <root>/grids/<grid>/report.html.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="FOLDER", help="Write every chart as an SVG file of its own, too."),
    ] = None,
    ui: Annotated[
        str | None,
        typer.Option(
            "--mlflow-ui",
            metavar="ADDRESS",
            help="Link every run to this MLflow UI, http://127.0.0.1:5000 for example. A server that cells were "
            "mirrored to is linked without it.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="PROFILE", help="Estimate the cost by this profile's measured speed."),
    ] = None,
) -> None:
    """Write a grid's report: one HTML page that needs no network, for the browser, the phone and the printer.

    The table with its tests, the figures of its analyses, bars with 95% intervals, quality against length and place,
    curves of training, GPU hours estimated and used, what ran where and how often it was restarted, code and
    configurations. A grid that is half done has a page too, which says what is missing. It is read from the records
    alone.
    """
    from lmk_experiments.cli.grid_names import grid_name
    from lmk_experiments.grids.schema import checked_name
    from lmk_experiments.records import load_grid
    from lmk_experiments.records.atomic import write_text
    from lmk_experiments.report import gather, render_page, write_charts

    where = real_root(root)
    name = grid_name(grid)
    record = load_grid(where, name)
    target = out if out is not None else where / "grids" / checked_name(name) / "report.html"
    if target.is_dir():
        raise ValueError(f"--out {out}: this is a folder; name a file, for example {target / f'{record.name}.html'}")
    if figures is not None and figures.exists() and not figures.is_dir():
        raise ValueError(f"--figures {figures}: this is a file; name a folder")
    costs, no_costs = _costs(grid, record, where, profile)
    gathered = gather(record, where, ui=ui, costs=costs, no_costs=no_costs)
    write_text(target, render_page(gathered))
    for one in gathered.missing[:1]:
        more = len(gathered.missing) - 1
        others = f", and {more} more" if more else ""
        typer.echo(f"not done yet: {one.kind} {one.row}{f' on {one.suite}' if one.suite else ''}{others}", err=True)
    typer.echo(f"written to {target}")
    if figures is not None:
        typer.echo(f"{len(write_charts(gathered, figures))} charts written to {figures}")


def _costs(typed: str, record: GridRecord, root: Path, profile: str | None) -> tuple[PlanCosts | None, str]:
    """The estimate of the grid as its file stands, or why there is none: the page is made without it."""
    from lmk_experiments.cli.show_plan import cell_state
    from lmk_experiments.configs import ConfigError
    from lmk_experiments.costs import load_throughput, plan_costs
    from lmk_experiments.grids import load_grid_file, make_plan

    speed = load_throughput(profile) if profile else None
    try:
        plan = make_plan(load_grid_file(typed), root)
    except (ConfigError, OSError) as error:
        first = str(error).splitlines()[0]
        return None, f"Nothing is estimated: the grid's file cannot be planned ({first})."
    planned = {one.id for one in (*plan.trainings, *plan.analyses)}
    if not planned & {one.id for one in (*record.trainings, *record.analyses)}:
        return None, "Nothing is estimated: the grid's file has changed since it was run."
    return plan_costs([plan], root, speed, lambda kind, identity: cell_state(root, kind, identity) == "done"), ""
