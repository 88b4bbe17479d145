"""The verb that looks at the environment: doctor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmk_experiments.cli.options import DEFAULT_ROOT, RootOption, real_root
from lmk_experiments.doctor.finding import Finding

if TYPE_CHECKING:
    from lmk_experiments.profiles import Profile


def register(app: typer.Typer) -> None:
    """Add the verbs of this module to ``app``."""
    app.command()(doctor)


def doctor(
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="Also look at the cluster, as this profile (a name or a YAML file) uses it.",
        ),
    ] = None,
    root: RootOption = DEFAULT_ROOT,
    probe: Annotated[
        bool, typer.Option("--probe", help="Also run a job of two minutes that reports from inside a node.")
    ] = False,
    nodes: Annotated[int, typer.Option(min=1, help="With --probe: how many nodes it takes.")] = 1,
    tasks: Annotated[int, typer.Option(min=1, help="With --probe: processes a node that talk to each other.")] = 2,
    wait: Annotated[float, typer.Option(min=1, help="With --probe: seconds to wait for it.")] = 600,
) -> None:
    """Look at this machine, and at a cluster, for what would stop a grid or bite later.

    Exit code 1: something would stop a grid.
    """
    from lmk_experiments.doctor.cluster import look_at_cluster
    from lmk_experiments.doctor.machine import look_at_machine
    from lmk_experiments.profiles import load_profile

    where = real_root(root)
    chosen = None if profile is None else load_profile(profile)
    failed = 0

    def say(finding: Finding) -> None:
        nonlocal failed
        failed += finding.level == "fail"
        typer.echo(str(finding))

    for finding in look_at_machine(where):
        say(finding)
    if chosen is not None and chosen.scheduler == "slurm":
        for finding in look_at_cluster(chosen, where):
            say(finding)
    if probe:
        if chosen is None or chosen.scheduler != "slurm":
            raise ValueError("--probe needs a --profile of a cluster")
        _probe(chosen, where, nodes, tasks, wait, say)
    if failed:
        typer.echo(f"\n{failed} of these would stop a grid")
    raise typer.Exit(int(failed > 0))


def _probe(profile: Profile, root: Path, nodes: int, tasks: int, wait: float, say: Callable[[Finding], None]) -> None:
    from lmk_experiments.doctor.probe import ProbeError, submit_probe, wait_for_probe
    from lmk_experiments.submit.snapshot import take_snapshot

    code = take_snapshot(root / "probes" / "code", dirty=True)
    sent, path = submit_probe(profile, root, code, nodes=nodes, tasks=tasks)
    typer.echo(f"      probe: job {sent.ticket.id} is queued; Ctrl-C ends the waiting only")
    try:
        report = wait_for_probe(sent, path, wait)
    except ProbeError as error:
        say(Finding("fail", "probe", str(error)))
        return
    ranks = report.pop("ranks")
    for key, value in report.items():
        if key == "gpus_seen" and not value and profile.train.gpus:
            seen = f"0, where the profile's trainings ask for GPUs: torch there is {report.get('torch')}"
            say(Finding("fail", key, f"{seen} (+cpu has none), its driver {report.get('driver')}"))
            continue
        wrong = value is False and key in ("sum_is_right", "shared_root_writable")
        say(Finding("fail" if wrong else "ok", key, str(value)))
    hosts = ", ".join(f"{rank['rank']} on {rank['host']}" for rank in ranks)
    say(Finding("ok", "ranks", hosts))
