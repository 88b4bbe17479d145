"""What the processes of a training agree on, so that none waits for one that has failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

_FINE, _NO_MEMORY, _FAILED = 0, 1, 2

T = TypeVar("T")


class PeerFailedError(RuntimeError):
    """Another process of this training failed; its own error says why."""


class OutOfMemoryTogether(Exception):
    """A device's memory ran out, in this process or in another: all processes raise this at the same place."""


def world() -> tuple[int, int]:
    """This process' rank and the number of processes; 0 and 1 where there is no process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def together(work: Callable[[], T], device: torch.device) -> T:
    """Does ``work`` and learns how it went in the others.

    Work that talks to other processes does so only right behind an agreement of its own, on what comes before: then the
    processes meet there, whichever of them fails on the way. What they have agreed on there goes through here as it is.

    Raises:
        OutOfMemoryTogether: A device ran out of memory in one of the processes.
        PeerFailedError: The work failed in another process.
        Exception: What the work raised here.
    """
    results: list[T] = []
    status, failure, message = _FINE, None, "in another process"
    try:
        results.append(work())
    except (OutOfMemoryTogether, PeerFailedError):
        raise  # all of them, at the same place
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
