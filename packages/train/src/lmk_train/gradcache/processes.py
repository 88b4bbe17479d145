"""What the processes of a training agree on, so that none waits for one that has failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lmk_train.loss.gather import world

_BUCKET = 2**25
"""Numbers that are summed over processes at once: 128 MB of float32."""

_FINE, _NO_MEMORY, _FAILED = 0, 1, 2

T = TypeVar("T")


class PeerFailedError(RuntimeError):
    """Another process of this training failed; its own error says why."""


class OutOfMemoryTogether(Exception):
    """A device's memory ran out, in this process or in another: all processes raise this at the same place."""


def together(work: Callable[[], T], device: torch.device) -> T:
    """Does ``work``, which must not talk to other processes, and learns how it went in the others.

    Raises:
        OutOfMemoryTogether: A device ran out of memory in one of the processes.
        PeerFailedError: The work failed in another process.
        Exception: What the work raised here.
    """
    results: list[T] = []
    status, failure, message = _FINE, None, "in another process"
    try:
        results.append(work())
    except torch.OutOfMemoryError as error:
        # Only the text is kept: the error's frames hold the tensors that are to be freed.
        status, message = _NO_MEMORY, str(error)
    except Exception as error:  # noqa: BLE001 (raised below, when the others know)
        status, failure = _FAILED, error
    worst = largest(status, device=device)
    if failure is not None:
        raise failure
    if worst == _FAILED:
        raise PeerFailedError("another process of this training failed in this step; see its own error")
    if worst == _NO_MEMORY:
        raise OutOfMemoryTogether(message)
    return results[0]


def largest(number: int, *, device: torch.device) -> int:
    """The largest of the processes' numbers."""
    if world()[1] == 1:
        return number
    value = torch.tensor(number, dtype=torch.int64, device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return int(value)


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
