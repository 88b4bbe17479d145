"""The shape of a profile."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lmk_experiments.configs import Section
from lmk_experiments.costs.throughput import ThroughputSection
from lmk_experiments.grids.needs import EvaluateNeed, Need, Rule
from lmk_experiments.grids.schema import Name
from lmk_experiments.mirror.address import has_login
from lmk_slurm import Site

_SECRET = re.compile(r"PASSWORD|PASSWD|TOKEN$|SECRET|API_KEY", re.IGNORECASE)


class GpuSection(Section):
    """The GPUs of a node, and how this cluster wants to be asked for them."""

    type: str | None = None
    """The cluster's own name for them (`sinfo -o %G` shows it); null asks for any."""
    form: Literal["gres", "gpus-per-node"] = "gres"
    """`gres` asks with `--gres=gpu:h100:8`, `gpus-per-node` with `--gpus-per-node=h100:8`."""
    per_node: int | None = Field(default=None, ge=0)
    """How many a node has; a job that asks for more is refused before it is submitted."""


class SyncSection(Section):
    """The small job at the end of a grid that mirrors its records to MLflow."""

    enabled: bool = True
    """`false` where the cluster refuses jobs without GPUs: `lmk sync` on a login node does the same."""
    partition: str | None = None
    """Where it is queued; null is where the others are."""


class Profile(Section):
    """How one cluster is used: where jobs go, what they may ask, and what is set up before them."""

    profile: Name
    """Its name: what `--profile` is given."""
    about: str = ""
    """A line for people."""
    scheduler: Literal["slurm", "local"] = "slurm"
    """`local`: this machine, without a scheduler."""
    partition: str | None = None
    """Where jobs are queued; null is the cluster's default."""
    account: str | None = None
    """Who pays, where the cluster wants to know."""
    qos: str | None = None
    """The quality of service, where the cluster has several."""
    constraint: str | None = None
    """Features that a node must have, as for sbatch."""
    gpu: GpuSection = GpuSection()
    """The nodes' GPUs."""
    memory_gb: float | None = Field(default=None, gt=0)
    """Memory a node for jobs that do not say, in GB; null is the cluster's default, which may be small."""
    max_memory_gb: float | None = Field(default=None, gt=0)
    """The most memory a node that a job may ask."""
    max_hours: float | None = Field(default=None, gt=0)
    """The longest time that a job may ask; a cell that needs more goes on in further allocations."""
    max_array: int = Field(default=1000, ge=1)
    """The most tasks of one array: the cluster's MaxArraySize less one, or less."""
    at_once: int | None = Field(default=None, ge=1)
    """The most tasks of one array that run together; null is as many as the cluster lets."""
    setup: tuple[str, ...] = ()
    """Shell lines before every job: modules, conda, a container's variables."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables of every job. `$NAME` is filled in on the node."""
    python: str | None = None
    """The command that starts Python on a node; null is the interpreter that submits."""
    srun: tuple[str, ...] = ()
    """Further arguments of srun, such as those of a container."""
    sbatch: dict[str, str | int | bool] = Field(default_factory=dict)
    """Any further option of sbatch by its name, such as `reservation`; `true` for one without a value."""
    signal_seconds: int = Field(default=120, ge=30)
    """How long before its time is up a job is told to save its work and queue again."""
    max_timeouts: int = Field(default=20, ge=0)
    """How often a job whose time was up queues again; one that gains no step between two of them stops before."""
    offline: bool = False
    """Whether nodes have no internet: libraries are told not to try."""
    train: Need = Need()
    """What a training asks, unless the grid says otherwise."""
    evaluate: EvaluateNeed = EvaluateNeed()
    """What an evaluation asks, unless the grid says otherwise."""
    analyze: Need = Need()
    """What an analysis asks, unless the grid says otherwise."""
    rules: tuple[Rule, ...] = ()
    """What some cells ask instead; later ones win, and a grid's own win over these."""
    sync: SyncSection = SyncSection()
    """The job at the end."""
    throughput: ThroughputSection = ThroughputSection()
    """Measured speeds."""

    @field_validator("environment", mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        # YAML reads `OMP_NUM_THREADS: 1` as a number, and a variable is a text.
        if not isinstance(value, dict):
            return value
        return {name: str(text) if isinstance(text, int | float) else text for name, text in value.items()}

    @field_validator("environment")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not text.startswith("$") and (_SECRET.search(name) or has_login(text)):
                raise ValueError(
                    f"{name} holds a secret, and a profile's variables stand in every job's script, which others may "
                    "read; jobs inherit it from the shell that submits, or read ~/.mlflow/credentials"
                )
        return value

    @model_validator(mode="after")
    def _own_keys(self) -> Profile:
        taken = {"array", "dependency", "kill-on-invalid-dep", "output", "error", "open-mode", "job-name", "requeue"}
        for key in self.sbatch:
            if key.replace("_", "-") in taken:
                raise ValueError(f"sbatch.{key} is set for every job already; valid: any option but {sorted(taken)}")
        return self

    def sync_site(self) -> Site:
        """What the scheduler is told of the job at the end."""
        return replace(self.site(), partition=self.sync.partition or self.partition)

    def site(self) -> Site:
        """What the scheduler is told."""
        quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        return Site(
            partition=self.partition,
            account=self.account,
            qos=self.qos,
            constraint=self.constraint,
            gpu_type=self.gpu.type,
            gpu_form=self.gpu.form,
            gpus_per_node=self.gpu.per_node,
            memory_gb=self.memory_gb,
            max_memory_gb=self.max_memory_gb,
            max_hours=self.max_hours,
            max_array=self.max_array,
            at_once=self.at_once,
            setup=self.setup,
            environment={
                "LMK_MAX_TIMEOUTS": str(self.max_timeouts),
                **(quiet if self.offline else {}),
                **self.environment,
            },
            python=self.python,
            srun=self.srun,
            options=self.sbatch,
            signal_seconds=self.signal_seconds,
        )
