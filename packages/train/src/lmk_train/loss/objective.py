"""What a step minimises: the loss of this process' queries over the passages of all processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from lmk_train.config import LossConfig
from lmk_train.loss.blocks import sum_in_blocks
from lmk_train.loss.contrastive import distillation_rows, info_nce_rows, similarity_logits
from lmk_train.loss.duplicates import TextKeys, own_groups
from lmk_train.loss.gather import Shares, gather_rows, share_counts


@dataclass(frozen=True)
class Targets:
    """What belongs to what among the rows of one process, on the device of its vectors."""

    sizes: Int[Tensor, " rows"]
    """The passages of each query, the positive first."""
    teacher: Float[Tensor, "rows group"] | None
    """The teacher's scores; ``None`` where no query has any."""
    scored: Bool[Tensor, " rows"]
    """Which queries have scores."""
    query_keys: Int[Tensor, " rows"]
    passage_keys: Int[Tensor, " columns"]
    """The texts' 64-bit keys."""


class Objective(NamedTuple):
    """This process' part of the step's loss: the sum over processes is the mean over all their queries."""

    loss: Float[Tensor, ""]
    masked: Int[Tensor, ""]
    """Pairs that were left out because their texts are equal."""


class ContrastiveObjective:
    """The loss of ``settings``, in float32, over all processes of the process group if there is one.

    Each process takes the losses of its own queries over all passages and divides by the queries of all processes. The
    sum of the processes' gradients is then that of the mean over all queries, whatever each one's share. (An average
    of gradients would want each part multiplied by the number of processes.)

    Args:
        settings: The objective.
        logits_at_once: How many logits are computed at once.

    Raises:
        ValueError: A dimension of ``settings.matryoshka`` is larger than the vectors.
    """

    def __init__(self, settings: LossConfig, *, logits_at_once: int = 2**20) -> None:
        self.settings, self.logits_at_once = settings, logits_at_once

    def __call__(
        self, queries: Float[Tensor, "rows dim"], passages: Float[Tensor, "columns dim"], targets: Targets
    ) -> Objective:
        """A collective over all processes, as its backward pass is."""
        rows, columns = share_counts(len(queries), len(passages), device=queries.device)
        all_passages = gather_rows(passages, columns)
        all_queries = gather_rows(queries, rows) if self.settings.bidirectional else None
        keys = _gather_keys(targets, rows, columns) if self.settings.mask_duplicates else None
        step = _Step(self.settings, targets, rows, columns, keys, self.logits_at_once)
        dims = self.settings.matryoshka or (queries.shape[1],)
        if max(dims) > queries.shape[1]:
            raise ValueError(
                f"loss.matryoshka has {max(dims)} dimensions and the vectors have {queries.shape[1]}; "
                f"valid: at most {queries.shape[1]}"
            )
        total = queries.new_zeros((), dtype=torch.promote_types(queries.dtype, torch.float32))
        for dim in dims:
            own, others = _truncated(queries, dim), _truncated(all_passages, dim)
            loss = step.from_queries(own, others)
            if all_queries is not None:
                positives = _truncated(passages, dim)[targets.sizes.cumsum(0) - targets.sizes]
                loss = (loss + step.from_positives(positives, _truncated(all_queries, dim))) / 2
            total = total + loss
        return Objective(total / (len(dims) * rows.total), step.masked // len(dims))


class _Step:
    """The two sums over this process' rows, each in blocks."""

    def __init__(
        self,
        settings: LossConfig,
        targets: Targets,
        rows: Shares,
        columns: Shares,
        keys: TextKeys | None,
        logits_at_once: int,
    ) -> None:
        self.settings, self.targets, self.keys = settings, targets, keys
        self.rows, self.columns, self.logits_at_once = rows, columns, logits_at_once
        self.first = targets.sizes.cumsum(0) - targets.sizes + columns.offset
        self.distills = targets.teacher is not None and settings.distillation == "auto"
        self.masked = torch.zeros((), dtype=torch.int64, device=targets.sizes.device)

    def from_queries(self, queries: Tensor, passages: Tensor) -> Tensor:
        return sum_in_blocks(queries, passages, self._query_block, self._at_once(self.columns.total))

    def from_positives(self, positives: Tensor, queries: Tensor) -> Tensor:
        return sum_in_blocks(positives, queries, self._positive_block, self._at_once(self.rows.total))

    def _at_once(self, width: int) -> int:
        return max(1, self.logits_at_once // width)

    def _query_block(self, queries: Tensor, passages: Tensor, rows: slice) -> Tensor:
        logits = similarity_logits(queries, passages, self.settings.temperature)
        left_out = self._count(None if self.keys is None else self.keys.passages_left_out(rows))
        if not self.distills:
            return info_nce_rows(logits, self.first[rows], left_out).sum()
        targets = self.targets
        assert targets.teacher is not None
        return distillation_rows(
            logits,
            self.first[rows],
            targets.sizes[rows],
            targets.teacher[rows],
            targets.scored[rows],
            self.settings.teacher_temperature,
            left_out,
        ).sum()

    def _positive_block(self, positives: Tensor, queries: Tensor, rows: slice) -> Tensor:
        logits = similarity_logits(positives, queries, self.settings.temperature)
        left_out = self._count(None if self.keys is None else self.keys.queries_left_out(rows))
        own = torch.arange(rows.start, rows.stop, device=logits.device) + self.rows.offset
        return info_nce_rows(logits, own, left_out).sum()

    def _count(self, left_out: Tensor | None) -> Tensor | None:
        if left_out is not None:
            self.masked += left_out.sum()
        return left_out


def _truncated(vectors: Tensor, dim: int) -> Tensor:
    return vectors if dim == vectors.shape[1] else functional.normalize(vectors[:, :dim], dim=1)


def _gather_keys(targets: Targets, rows: Shares, columns: Shares) -> TextKeys:
    sizes = gather_rows(targets.sizes, rows)
    return TextKeys(
        own_queries=targets.query_keys,
        own_passages=own_groups(targets.passage_keys, targets.sizes),
        queries=gather_rows(targets.query_keys, rows),
        passages=gather_rows(targets.passage_keys, columns),
        positives=sizes.cumsum(0) - sizes,
        first_row=rows.offset,
    )
