"""The ranks as torch and Lightning see them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Generator
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning.pytorch.plugins.environments import ClusterEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch.distributed import ProcessGroup, TCPStore

from lmk_train.ranks.place import ALONE, Place

_Value = TypeVar("_Value")
_MEETING = timedelta(days=7)
"""How long a rank waits where the first one works alone: whoever dies meanwhile is noticed by its closed connection, or
by whoever started it, and a validation takes what it takes."""


class Ranks:
    """All ranks of a training, as one of them sees them. Alone, everything here does nothing.

    Attributes:
        place: Which one this is.
        hosts: The nodes' names, one a rank.
    """

    def __init__(
        self, place: Place = ALONE, *, hosts: list[str] | None = None, meeting: ProcessGroup | None = None
    ) -> None:
        self.place, self._meeting = place, meeting
        self.hosts = [socket.gethostname()] if hosts is None else hosts

    @property
    def first(self) -> bool:
        """Whether this one records, validates and writes files."""
        return self.place.rank == 0

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.place.size > 1

    @property
    def nodes(self) -> list[str]:
        """The name of each node."""
        return list(dict.fromkeys(self.hosts))

    def meet(self) -> None:
        """Waits for all others, however long the first rank takes."""
        if self._meeting is not None:
            dist.barrier(group=self._meeting)

    def share(self, value: _Value) -> _Value:
        """The first rank's value, on all of them."""
        if self._meeting is None:
            return value
        box: list[Any] = [value]
        dist.broadcast_object_list(box, src=0, group=self._meeting)
        return box[0]

    def gather(self, value: _Value) -> list[_Value]:
        """Everyone's value by rank, on all of them."""
        if self._meeting is None:
            return [value]
        values: list[Any] = [None] * self.place.size
        dist.all_gather_object(values, value, group=self._meeting)
        return values

    @contextlib.contextmanager
    def in_turn(self) -> Generator[None]:
        """The first rank alone, then one rank of each other node, then the rest: what one builds, others find."""
        turn = 0 if self.first else 1 if self.place.local_rank == 0 else 2
        for _ in range(turn):
            self.meet()
        yield
        for _ in range(2 - turn):
            self.meet()


@contextlib.contextmanager
def formed(place: Place, store: TCPStore, *, cuda: bool) -> Generator[Ranks]:
    """The process groups of a training with several ranks: NCCL on GPUs, gloo on CPUs."""
    if cuda:
        torch.cuda.set_device(place.local_rank)
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=place.rank, world_size=place.size)
    meeting = dist.new_group(backend="gloo", timeout=_MEETING)
    hosts: list[Any] = [None] * place.size
    dist.all_gather_object(hosts, socket.gethostname(), group=meeting)
    yield Ranks(place, hosts=hosts, meeting=meeting)
    # Not after an error: the others may be anywhere, and a group of theirs is waited for.
    dist.barrier(group=meeting)
    dist.destroy_process_group()


class UnwrappedStrategy(DDPStrategy):
    """DDP's handling of processes without its wrapper: the module averages its gradients itself."""

    def configure_ddp(self) -> None:
        """Leaves the module as it is."""


class RanksEnvironment(ClusterEnvironment):
    """Tells Lightning what a :class:`Place` says. Named, because a detected SLURM requeues jobs on its own."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    @property
    def creates_processes_externally(self) -> bool:
        """They are all there."""
        return True

    @property
    def main_address(self) -> str:
        """Not used: the process group is there too."""
        return "127.0.0.1"

    @property
    def main_port(self) -> int:
        """Not used."""
        return 0

    @staticmethod
    def detect() -> bool:
        """Never chosen by Lightning itself."""
        return False

    def world_size(self) -> int:
        """Ranks of the training."""
        return self.place.size

    def set_world_size(self, size: int) -> None:
        """It is known."""

    def global_rank(self) -> int:
        """This one."""
        return self.place.rank

    def set_global_rank(self, rank: int) -> None:
        """It is known."""

    def local_rank(self) -> int:
        """This one on its node."""
        return self.place.local_rank

    def node_rank(self) -> int:
        """Its node."""
        return self.place.node
