"""The verbs of cells that are there: compare, clean."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmk_experiments.cli.columns import columns
from lmk_experiments.cli.options import DEFAULT_ROOT, GridArgument, RootOption, real_root
from lmk_experiments.words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from lmk_experiments.upkeep import Comparison, Leftover

_SIDE = "A row (ROW or GRID/ROW), or the first digits of a training's or evaluation's identity."


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(compare)
    app.command()(clean)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    b: Annotated[str, typer.Argument(metavar="B", help=_SIDE)],
    root: RootOption = DEFAULT_ROOT,
    seed: Annotated[int | None, typer.Option(help="The seed of rows; default: the grid's first.")] = None,
    metric: Annotated[str, typer.Option(help="The score of each task, or all.")] = "main_score",
    only_differences: Annotated[
        bool, typer.Option("--only-differences", help="Leave out the keys that are the same.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: all of it as JSON.")] = False,
) -> None:
    """Show two rows or cells side by side: their configurations, differences marked, and their scores by task."""
    from lmk_experiments.upkeep import compare as put_side_by_side
    from lmk_experiments.upkeep import find_side

    where = real_root(root)
    sides = find_side(where, a, seed), find_side(where, b, seed)
    found = put_side_by_side(*sides, None if metric == "all" else metric)
    typer.echo(json.dumps(_json(found), indent=2) if as_json else _text(found, only_differences=only_differences))


def clean(
    grid: GridArgument,
    root: RootOption = DEFAULT_ROOT,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List, and delete nothing.")] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Also of cells that are not done: they start again from nothing.")
    ] = False,
    log_days: Annotated[float, typer.Option(min=0, help="Logs of at least this age go, in days.")] = 7.0,
) -> None:
    """List what a grid's cells do not need any more, ask, and delete it.

    Checkpoints of finished trainings, MTEB's own result files, embeddings, tokens that no reading needs any more,
    evaluations that a figure was made of, half-written files and old logs go. Final weights, records, curves and scores
    stay, and so does every cell that is unfinished or being worked on. A model that is logged in MLflow has its files
    there too: nothing here frees them.
    """
    from lmk_experiments.cli.grid_names import grid_name
    from lmk_experiments.records import load_grid
    from lmk_experiments.upkeep import delete, find_leftovers, format_bytes, logged_models

    where = real_root(root)
    record = load_grid(where, grid_name(grid))
    found, kept = find_leftovers(where, record, unfinished=unfinished, log_days=log_days)
    for one in kept:
        typer.echo(f"left alone: {one.name}: {one.reason}")
    logged, shared = logged_models(where, record)
    if logged:
        typer.echo(
            f"left alone: {counted(logged, 'model')} that MLflow holds too, {format_bytes(shared)} of it as hard "
            "links: deleting a cell frees none of that; MLflow's UI deletes a logged model, and `mlflow gc` its files"
        )
    if not found:
        typer.echo(f"{record.name}: nothing to delete under {where}")
        return
    typer.echo(columns([["size", "what", "path"], *_listed(found, where)]))
    total = format_bytes(sum(one.size for one in found))
    typer.echo(f"\n{record.name}: {len(found)} to delete, {total} in all, under {where}")
    if dry_run or not (yes or _agreed()):
        typer.echo("nothing was deleted")
        return
    freed, left = delete(found)
    for one in left:
        typer.echo(f"left alone: {one.name}: {one.reason}", err=True)
    typer.echo(f"deleted; {format_bytes(freed)} freed")


def _listed(found: list[Leftover], root: Path) -> list[list[str]]:
    """A line for each thing, and one for all logs of a cell."""
    from lmk_experiments.upkeep import format_bytes

    groups: dict[tuple[Path, str], list[Leftover]] = {}
    for one in found:
        groups.setdefault((one.path.parent if one.what == "log" else one.path, one.what), []).append(one)
    return [
        [
            format_bytes(sum(one.size for one in group)),
            f"{len(group)} logs" if what == "log" else what,
            str(path.relative_to(root)),
        ]
        for (path, what), group in groups.items()
    ]


def _agreed() -> bool:
    try:
        return typer.confirm("Delete them?", default=False)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        raise ValueError("nobody answered, for this is no terminal: add --yes to delete, --dry-run to list") from None


def _text(found: Comparison, *, only_differences: bool) -> str:
    shown = [pair for pair in found.config if pair.differs or not only_differences]
    keys = [[("* " if pair.differs else "  ") + pair.key, _cell(pair.a), _cell(pair.b)] for pair in shown]
    same = sum(not pair.differs for pair in found.config)
    parts = [f"A  {found.a.name}\nB  {found.b.name}"]
    if keys:
        parts.append(columns([["  configuration", "A", "B"], *keys]))
    parts.append(f"* {len(found.config) - same} keys differ, {same} are the same")
    if found.scores:
        lines = [
            [pair.task, pair.metric, _cell(pair.a), _cell(pair.b), _signed(pair.difference)] for pair in found.scores
        ]
        parts.append(columns([["task", "metric", "A", "B", "B - A"], *lines]))
    states = [f"{side.name}: {suite}: {state}" for side in (found.a, found.b) for suite, state in side.states.items()]
    return "\n\n".join([*parts, *(["\n".join(states)] if states else [])])


def _cell(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}"


def _json(found: Comparison) -> dict[str, Any]:
    return {
        "a": found.a.name,
        "b": found.b.name,
        "config": [{"key": pair.key, "a": pair.a, "b": pair.b, "differs": pair.differs} for pair in found.config],
        "scores": [
            {"task": pair.task, "metric": pair.metric, "a": pair.a, "b": pair.b, "difference": pair.difference}
            for pair in found.scores
        ],
    }
