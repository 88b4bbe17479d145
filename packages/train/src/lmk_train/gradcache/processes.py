"""What the processes of a training add up, and what they begin with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lmk_train.loss.agreement import world

_BUCKET = 2**25
"""Numbers that are summed over processes at once: 128 MB of float32."""


def sums(numbers: Tensor) -> Tensor:
    """The sum over processes of each of some numbers; a new tensor."""
    total = numbers.clone()
    if world()[1] > 1:
        dist.all_reduce(total)
    return total


def sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Sums each parameter's gradient over all processes, a few large pieces at a time.

    A parameter that has a gradient in some processes alone counts as zero in the others; one that has none anywhere
    keeps none, as it would in one process.
    """
    if world()[1] == 1:
        return
    present = torch.tensor([p.grad is not None for p in parameters], dtype=torch.uint8, device=parameters[0].device)
    dist.all_reduce(present, op=dist.ReduceOp.MAX)
    used = [p for p, here in zip(parameters, present.tolist(), strict=True) if here]
    for p in used:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for bucket in _buckets([p.grad for p in used if p.grad is not None]):
        if len(bucket) == 1 and bucket[0].is_contiguous():
            dist.all_reduce(bucket[0])  # in place: one that fills a bucket, as embeddings do, may be 1 GB
            continue
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
        dist.all_reduce(flat)
        parts = flat.split([gradient.numel() for gradient in bucket])
        for gradient, part in zip(bucket, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def same_weights(module: nn.Module) -> None:
    """Gives all processes the first one's parameters and buffers."""
    if world()[1] == 1:
        return
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor, src=0)


def _buckets(gradients: Iterable[Tensor]) -> list[list[Tensor]]:
    buckets: list[list[Tensor]] = []
    room, kind = 0, None
    for gradient in gradients:
        if not buckets or gradient.numel() > room or gradient.dtype != kind:
            buckets.append([])
            room, kind = _BUCKET, gradient.dtype
        buckets[-1].append(gradient)
        room -= gradient.numel()
    return buckets
