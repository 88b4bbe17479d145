"""Which of a training's processes this one is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

_PORTS = range(20000, 40000)
_CANDIDATES = 8


@dataclass(frozen=True)
class Place:
    """One rank among all.

    Attributes:
        rank: From 0; the first rank records and writes.
        size: Ranks of the training, over all nodes.
        local_rank: From 0 on each node: which device it takes.
        node: From 0.
        nodes: How many there are.
    """

    rank: int
    size: int
    local_rank: int
    node: int = 0
    nodes: int = 1

    @property
    def devices(self) -> int:
        """Ranks of each node."""
        return self.size // self.nodes

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"


ALONE = Place(0, 1, 0)


@dataclass(frozen=True)
class SlurmPlace(Place):
    """A task of an srun step.

    Attributes:
        step: Tells this start of this step from all others of the cluster.
        address: The first rank's node.
        ports: Where the first rank may be found there; another job can hold one of them.
    """

    step: str = ""
    address: str = ""
    ports: tuple[int, ...] = ()


def slurm_place(environment: Mapping[str, str] = os.environ) -> SlurmPlace | None:
    """The place of a process that srun started with others as one step, ``None`` of any other.

    A batch script, and a step of one task such as an interactive shell, are no such place, whatever their job asked.

    Raises:
        ValueError: The nodes of the step have unequal numbers of tasks.

    Example:
        >>> place = slurm_place(
        ...     {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}
        ...     | {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
        ...     | {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "node[07-08]"}
        ... )
        >>> place.rank, place.size, place.local_rank, place.node, place.devices, place.address
        (3, 4, 1, 1, 2, 'node07')
    """
    size = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if size == 1:
        return None
    nodes = int(environment["SLURM_STEP_NUM_NODES"])
    listed = environment["SLURM_STEP_TASKS_PER_NODE"]
    if "," in listed or size % nodes:
        raise ValueError(f"this step has {listed} tasks on its {nodes} nodes; valid: the same number on each")
    job = int(environment["SLURM_JOB_ID"])
    number, start = environment["SLURM_STEP_ID"], environment.get("SLURM_RESTART_COUNT", "0")
    return SlurmPlace(
        rank=int(environment["SLURM_PROCID"]),
        size=size,
        local_rank=int(environment["SLURM_LOCALID"]),
        node=int(environment["SLURM_NODEID"]),
        nodes=nodes,
        step=f"{job}.{number}.{start}",
        address=first_host(environment["SLURM_STEP_NODELIST"]),
        ports=tuple(_PORTS[(job * _CANDIDATES + more) % len(_PORTS)] for more in range(_CANDIDATES)),
    )


def first_host(hosts: str) -> str:
    """The first host of a list as SLURM writes it.

    Example:
        >>> first_host("n1"), first_host("gpu-[003,7-9],login"), first_host("rack[2-3]n[10-12]-ib")
        ('n1', 'gpu-003', 'rack2n10-ib')
    """
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", hosts)
    assert first is not None
    return re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", first[0])
