"""``lmk submit`` and ``lmk plan --show``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from lmk_experiments.cli.columns import columns, next_steps
from lmk_experiments.cli.options import again
from lmk_experiments.profiles import load_profile
from lmk_experiments.records import GridRecord
from lmk_slurm import Site


def submit_grid_file(grid: str, root: Path, assignments: tuple[str, ...], profile_name: str, dirty: bool) -> int:
    """Submit a grid. Returns the exit code."""
    from lmk_experiments.cli.run_grid import prepare, run_grid, sync_records
    from lmk_experiments.mirror.lock import LockedError
    from lmk_experiments.submit.estimates import note_estimates
    from lmk_experiments.submit.grid import grid_folder, submit_grid
    from lmk_experiments.submit.snapshot import take_snapshot

    profile = load_profile(profile_name)
    if profile.scheduler == "local":
        typer.echo(f"profile {profile.profile} is this machine: running the grid here, as `lmk run` does")
        return run_grid(grid, root, assignments, profile.at_once)
    plan, record = prepare(grid, root, assignments)
    code = take_snapshot(grid_folder(record, root) / "code", dirty=dirty)
    # The store is made here, once: a database that many jobs find missing breaks when all of them make it.
    sync_records(root, record)
    note_estimates(plan, root, profile_name)
    try:
        result = submit_grid(record, root, plan, profile, code)
    except LockedError as error:
        raise ValueError(f"somebody submits under this root right now: {error}") from None
    for array in result.adopted:
        typer.echo(f"took over array {array}: an earlier submit was stopped before it had noted it")
    for name, memory in result.raised.items():
        typer.echo(f"{name}: memory ran out, so it asks for {memory:g} GB now")
    typer.echo(f"code: {code.describe()}")
    for name in result.elsewhere:
        typer.echo(f"left out: {name} (a process outside the scheduler works on its cells, or on what it waits for)")
    if result.sent:
        typer.echo(columns([["job", "id"], *([name, one.ticket.id] for name, one in result.sent.items())]))
    already = f", {len(result.active)} with the scheduler already" if result.active else ""
    typer.echo(f"{record.name}: {len(result.sent)} jobs submitted{already}, {result.done} done")
    _say_what_next(record, root)
    return 0


def show_scripts(grid: str, root: Path, assignments: tuple[str, ...], profile_name: str) -> None:
    """Print what sbatch would be given for the jobs that are not done. Submits and writes nothing."""
    from lmk_experiments.grids import load_grid_file, make_plan
    from lmk_experiments.jobs.fan import make_jobs, record_of
    from lmk_experiments.submit.grid import grid_folder, sync_job
    from lmk_slurm import scripts

    profile = load_profile(profile_name)
    if profile.scheduler == "local":
        typer.echo(f"\nprofile {profile.profile} is this machine: there is nothing to give to sbatch")
        return
    plan = make_plan(load_grid_file(grid, assignments), root)
    if plan.not_built:
        names = ", ".join(sorted(plan.not_built))
        raise ValueError(f"--show: {names} is not built, so jobs have no names yet; `lmk data build {names}` first")
    record = record_of(plan)

    def with_code(site: Site) -> Site:
        return replace(site, setup_last=("export PYTHONPATH=<copy of the code>",))

    texts = scripts(
        make_jobs(record, root, plan, profile),
        with_code(profile.site()),
        grid_folder(record, root) / "submissions" / "<time>",
        label=f"{record.name}-<token>",
        last=sync_job(record, root) if profile.sync.enabled else None,
        last_site=with_code(profile.sync_site()),
    )
    for number, text in enumerate(texts, 1):
        typer.echo(f"\n----- array {number} of {len(texts)}: sbatch is given this text\n{text}")


def _say_what_next(record: GridRecord, root: Path) -> None:
    steps = [
        (f"{again('status', record.name, root)} --watch", "every cell, live; Ctrl-C ends the looking only"),
        (f"{again('tail', record.name, root)} ROW -f", "what a job prints"),
        (again("cancel", record.name, root), "stop what is queued or runs"),
        (again("table", record.name, root), "the table, with what is done so far"),
    ]
    typer.echo(f"\n{next_steps(steps)}")
