"""``lmk doctor --probe``: a job of two minutes that reports from the inside of a node."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmk_experiments.doctor.machine import fresh_folder
from lmk_experiments.errors import WorkFailed
from lmk_experiments.jobs.probe import REPORT
from lmk_experiments.profiles import Profile
from lmk_experiments.records.atomic import read_json
from lmk_experiments.submit.snapshot import Snapshot
from lmk_slurm import Job, Resources, Sent, look, submit_jobs
from lmk_slurm.launcher import Phase
from lmk_slurm.logs import last_error

_POLL_SECONDS = 2.0


class ProbeError(WorkFailed):
    """The probe's job ended without its report."""


def submit_probe(profile: Profile, root: Path, code: Snapshot, *, nodes: int = 1, tasks: int = 2) -> tuple[Sent, Path]:
    """Submit the probe; its ticket, and the report that it will write."""
    folder = fresh_folder(root)
    job = Job(
        name="probe",
        function="lmk_experiments.jobs.probe:run_probe",
        argument=str(folder),
        logs=folder,
        done=(folder / REPORT,),
        resources=Resources(
            nodes=nodes,
            tasks=tasks,
            gpus=tasks if profile.train.gpus else 0,
            cpus=1,
            memory_gb=min(16.0, profile.max_memory_gb or 16.0),
            hours=2 / 60,
        ),
    )
    site = replace(profile.site(), setup_last=code.setup_lines())
    return submit_jobs([job], site, folder / "job", label="lmk-doctor")["probe"], folder / REPORT


def wait_for_probe(sent: Sent, report: Path, seconds: float) -> dict[str, Any]:
    """The probe's report, once it is there.

    Raises:
        ProbeError: the job ended without one, or has not ended after ``seconds``; the message says why.
    """
    deadline = time.monotonic() + seconds
    while True:
        sighting = look([sent.ticket])[sent.ticket.id]
        found = read_json(report)
        if found is not None:
            return found
        if sighting.phase is Phase.ENDED or sighting.state == "GONE":
            error = last_error(sent.log)
            raise ProbeError(f"job {sent.ticket.id} ended as {sighting.state}: {error or 'no log'} (log: {sent.log})")
        if time.monotonic() > deadline:
            waits = f"{sighting.state}{f', {sighting.reason}' if sighting.reason else ''}"
            raise ProbeError(f"job {sent.ticket.id} has not ended after {seconds:g} s ({waits}); it goes on: {report}")
        time.sleep(_POLL_SECONDS)
