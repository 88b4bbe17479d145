"""The vectors of all processes, with exact gradients, where each process may hold another number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor


@dataclass(frozen=True)
class Shares:
    """How many of something each process holds, in the order of the processes."""

    counts: tuple[int, ...]
    rank: int

    @property
    def offset(self) -> int:
        """Where this process' own begin among all."""
        return sum(self.counts[: self.rank])

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def own(self) -> slice:
        return slice(self.offset, self.offset + self.counts[self.rank])


def world() -> tuple[int, int]:
    """This process' rank and the number of processes; 0 and 1 where there is no process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def share_counts(*counts: int, device: torch.device) -> tuple[Shares, ...]:
    """What each process has of each thing: one small collective for all of them."""
    rank, size = world()
    if size == 1:
        return tuple(Shares((count,), 0) for count in counts)
    own = torch.tensor(counts, dtype=torch.int64, device=device)
    gathered = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(gathered, own)
    table = torch.stack(gathered).tolist()
    return tuple(Shares(tuple(row[i] for row in table), rank) for i in range(len(counts)))


def gather_rows(own: Shaped[Tensor, "own ..."], shares: Shares) -> Shaped[Tensor, "all ..."]:
    """The rows of all processes, one process behind the other, exact for unequal counts.

    The backward pass is exact too: a row's gradient is the sum of its gradients in all processes. Like the forward
    pass it is a collective: every process has to go through it, or none.

    Raises:
        ValueError: ``own`` does not have as many rows as ``shares`` says.
    """
    if len(own) != shares.counts[shares.rank]:
        raise ValueError(f"{len(own)} rows are given, and {shares.counts[shares.rank]} were agreed on")
    if len(shares.counts) == 1:
        return own
    return _GatherRows.apply(own, shares)


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, shares: Shares) -> Tensor:
        ctx.shares = shares
        # Backends want equal shapes (unequal ones give garbage), so the shorter ones are padded on the way.
        padded = own.new_zeros(max(shares.counts), *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in shares.counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, shares.counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total[ctx.shares.own].clone(), None
