"""Which rows a step failed on, told by the process where it happened to all of them."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor

from lmk_train.gradcache import Pass
from lmk_train.loss.agreement import world

_SHOWN = 20
"""Rows that a message names; the exception and the event hold them all."""


@runtime_checkable
class RowBatch(Protocol):
    """A step's rows in one process."""

    @property
    def rows(self) -> Int[Tensor, " rows"]: ...
    @property
    def sizes(self) -> Int[Tensor, " rows"]: ...
    @property
    def dataset(self) -> str: ...


class BatchFault(ValueError):
    """A training that was stopped at one step's batch."""

    step: int = 0
    """The step, from 1; it changed no weight."""
    where: tuple[dict[str, Any], ...] = ()
    """Of each process concerned its ``process``, ``dataset`` and ``rows``."""


def suspects(batch: RowBatch, passed: Pass) -> tuple[dict[str, Any], ...]:
    """The rows of a step whose loss or gradient is not finite, of the processes where that began.

    The loss of every process has every process' passages in it, so one faulty vector spoils all. Suspected are: rows
    whose own vectors are faulty; where there are none, the batches of processes whose own gradients are; else those of
    processes whose own loss is; else all. A collective, like `everywhere`.
    """
    own = _faulty_rows(batch, passed)
    found = _gather(
        {
            "level": 0 if own else 1 if not passed.finite else 2 if not torch.isfinite(passed.loss) else 3,
            "where": {"process": world()[0], "dataset": batch.dataset, "rows": own or batch.rows.tolist()},
        }
    )
    worst = min(one["level"] for one in found)
    return tuple(one["where"] for one in found if one["level"] == worst)


def everywhere(batch: RowBatch) -> tuple[dict[str, Any], ...]:
    """The rows of a step, of all processes."""
    return tuple(_gather({"process": world()[0], "dataset": batch.dataset, "rows": batch.rows.tolist()}))


def described(where: tuple[dict[str, Any], ...]) -> str:
    """For a message.

    Example:
        >>> described(({"process": 0, "dataset": "nli", "rows": [4, 9]},))
        "rows 4, 9 of 'nli'"
    """
    parts = []
    for one in where:
        rows = ", ".join(str(row) for row in one["rows"][:_SHOWN])
        more = f" and {len(one['rows']) - _SHOWN} more" if len(one["rows"]) > _SHOWN else ""
        process = f" in process {one['process']}" if len(where) > 1 or one["process"] else ""
        parts.append(f"rows {rows}{more} of {one['dataset']!r}{process}")
    return "; ".join(parts)


def _faulty_rows(batch: RowBatch, passed: Pass) -> list[int]:
    fine = torch.isfinite(passed.vectors).all(dim=1).cpu()
    queries, passages = fine.split([len(batch.rows), len(fine) - len(batch.rows)])
    owners = torch.arange(len(batch.rows)).repeat_interleave(batch.sizes.cpu())
    faulty = (~queries).nonzero().flatten().tolist() + owners[~passages].tolist()
    return [int(batch.rows[place]) for place in sorted(set(faulty))]


def _gather(own: dict[str, Any]) -> list[dict[str, Any]]:
    if world()[1] == 1:
        return [own]
    found: list[Any] = [None] * world()[1]
    dist.all_gather_object(found, own)
    return found
