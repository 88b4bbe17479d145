"""The vectors of all processes, with exact gradients, where each process may hold another number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor

from lmk_train.loss.agreement import together, world


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
        OutOfMemoryTogether: In one of the processes there is no room for them.
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

        def room() -> tuple[Tensor, Tensor, Tensor]:
            # Backends want equal shapes (unequal ones give garbage), so the shorter ones are padded on the way.
            most, world_size = max(shares.counts), len(shares.counts)
            padded = own.new_zeros(most, *own.shape[1:])
            padded[: len(own)] = own
            parts = own.new_empty(world_size * most, *own.shape[1:])
            return padded, parts, own.new_empty(shares.total, *own.shape[1:])

        padded, parts, everything = together(room, own.device)
        dist.all_gather_into_tensor(parts, padded)
        counted = [part[:count] for part, count in zip(parts.split(len(padded)), shares.counts, strict=True)]
        return torch.cat(counted, out=everything)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = together(lambda: gradients[0].clone(memory_format=torch.contiguous_format), gradients[0].device)
        dist.all_reduce(total)
        return total[ctx.shares.own].clone(), None
