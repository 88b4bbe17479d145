"""What a cluster wants to be told, and what it refuses."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lmk_slurm.checks import JobError
from lmk_slurm.jobs import Job, Resources
from lmk_slurm.signals import SIGNAL_VARIABLE

GpuForm = Literal["gres", "gpus-per-node"]


@dataclass(frozen=True, kw_only=True)
class Site:
    """One way of using one cluster. `None` leaves a choice to the cluster."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gpu_type: str | None = None
    """the cluster's own name for its GPUs, as in `gpu:h100:8`"""
    gpu_form: GpuForm = "gres"
    """how GPUs are asked for: `--gres=gpu:h100:8` or `--gpus-per-node=h100:8`"""
    gpus_per_node: int | None = None
    """the most GPUs that one job may ask of a node"""
    memory_gb: float | None = None
    """memory a node for jobs that do not say"""
    max_memory_gb: float | None = None
    max_hours: float | None = None
    max_array: int = 1000
    """the most tasks of one array; the cluster's MaxArraySize less one is the limit"""
    at_once: int | None = None
    """tasks of one array that may run together"""
    setup: tuple[str, ...] = ()
    """shell lines before the job: modules, conda, ..."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    setup_last: tuple[str, ...] = ()
    """shell lines after all of those"""
    python: str | None = None
    """the command that starts Python on a node, a shell command; by default the submitter's own interpreter"""
    srun: tuple[str, ...] = ()
    """further arguments of srun, such as those of a container"""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """any further option of sbatch by its name; `True` for one without a value"""
    signal_seconds: int = 120
    """how long before its end a job is told to save its work and queue again"""

    def check(self, job: Job) -> None:
        """Raises JobError when `job` asks for more than this site gives."""
        needs = job.resources
        for what, asked, most in (
            ("gpus", needs.gpus, self.gpus_per_node),
            ("memory_gb", needs.memory_gb, self.max_memory_gb),
            ("hours", needs.hours, self.max_hours),
        ):
            if asked is not None and most is not None and asked > most:
                raise JobError(job.name, f"{what} is {asked:g}, and a job may ask for {most:g} at most here")

    def parameters(self, needs: Resources) -> dict[str, Any]:
        """The options of sbatch for a job with these needs, by submitit's names."""
        options = {key.replace("_", "-"): value for key, value in self.options.items()}
        chosen: dict[str, Any] = {
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "nodes": needs.nodes,
            "ntasks_per_node": needs.tasks,
            "cpus_per_task": needs.cpus,
            "mem": _megabytes(self.memory_gb if needs.memory_gb is None else needs.memory_gb),
            "signal_delay_s": self.signal_seconds,
            "stderr_to_stdout": True,
            "srun_args": [*_srun(needs), *self.srun],
        }
        if needs.gpus:
            counted = f"{self.gpu_type}:{needs.gpus}" if self.gpu_type else str(needs.gpus)
            options[self.gpu_form] = f"gpu:{counted}" if self.gpu_form == "gres" else counted
        given = {key: value for key, value in chosen.items() if value is not None}
        # submitit has a value of its own for these two where they are left out.
        minutes = None if needs.hours is None else max(1, math.ceil(needs.hours * 60))
        return {**given, "time": minutes, "wckey": None, "additional_parameters": options}

    def setup_lines(self, environment: Mapping[str, str]) -> list[str]:
        """The shell lines before a job, with a job's own variables last."""
        told = {SIGNAL_VARIABLE: str(self.signal_seconds)}
        merged = {**told, **self.environment, **environment}
        exports = [f"export {name}={_quoted(value)}" for name, value in merged.items()]
        return [*self.setup, *exports, *self.setup_last]


def _srun(needs: Resources) -> list[str]:
    # Without the first, a rank that fails leaves the others waiting for it until the time is up. The second is not
    # inherited from sbatch since SLURM 22.05: a process would get one core.
    cores = [] if needs.cpus is None else [f"--cpus-per-task={needs.cpus}"]
    return ["--kill-on-bad-exit=1", *cores]


def _quoted(value: str) -> str:
    # "$NAME" in a value is the node's: SLURM's own variables are known there only.
    if "$" not in value:
        return shlex.quote(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`") + '"'


def _megabytes(gigabytes: float | None) -> str | None:
    return None if gigabytes is None else f"{math.ceil(gigabytes * 1024)}M"
