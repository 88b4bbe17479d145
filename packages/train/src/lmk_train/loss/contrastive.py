"""InfoNCE, and the distillation of a teacher's scores, over the passages of a whole batch.

Both read one matrix of logits ``[queries, columns]`` whose columns are passages in groups: group ``i`` is the positive
of query ``i`` followed by its drawn negatives. Groups may differ in size: a query without negatives of its own has a
group of one, and no column stands for a passage that isn't there. With passages of several processes in the columns,
``offset`` says at which group this process' own begin.

The functions on ``rows`` give one loss a query, from the column at which its group begins; they are what is computed in
blocks. `info_nce` and `distillation` are the same for a whole matrix.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def similarity_logits(
    queries: Float[Tensor, "queries dim"], passages: Float[Tensor, "columns dim"], temperature: float
) -> Float[Tensor, "queries columns"]:
    """Cosine similarity of unit vectors, divided by the temperature, in float32 (or wider) under any autocast.

    In bfloat16 the logits of two nearly equal vectors at temperature 0.02 would stand on a grid of about 0.2.
    """
    wide = torch.promote_types(queries.dtype, torch.float32)
    with torch.autocast(queries.device.type, enabled=False):
        return queries.to(wide) @ passages.to(wide).T / temperature


def info_nce_rows(
    logits: Float[Tensor, "queries columns"],
    first: Int[Tensor, " queries"],
    left_out: Bool[Tensor, "queries columns"] | None = None,
) -> Float[Tensor, " queries"]:
    """Cross-entropy of each query's positive, at column ``first``, against every column that is not left out."""
    if left_out is not None:
        logits = logits.masked_fill(left_out, torch.finfo(logits.dtype).min)
    return torch.nn.functional.cross_entropy(logits, first, reduction="none")


def distillation_rows(
    logits: Float[Tensor, "queries columns"],
    first: Int[Tensor, " queries"],
    sizes: Int[Tensor, " queries"],
    teacher: Float[Tensor, "queries group"],
    scored: Bool[Tensor, " queries"],
    teacher_temperature: float = 1.0,
    left_out: Bool[Tensor, "queries columns"] | None = None,
) -> Float[Tensor, " queries"]:
    """The distillation of the paper's runs, in one pass; rows without scores use InfoNCE.

    For query ``q`` with teacher weights ``t = softmax(scores / teacher_temperature)`` over its own passages,

        L = sum_i t_i * (log(sum_others exp(s) + sum_{j >= i} exp(s_j)) - s_i)

    that is: own passage ``i`` is the target of a softmax over all passages in which own passages ``0 .. i-1`` are left
    out. With all the weight on the positive it is InfoNCE, which is how a row without scores is computed.

    Args:
        logits: From `similarity_logits`.
        first: The column of each query's positive.
        sizes: Each query's own passages, which stand in the columns from ``first`` on.
        teacher: Their scores; ignored where ``scored`` is false, and beyond a query's own passages.
        scored: Which queries have scores.
        teacher_temperature: Divides the scores.
        left_out: Columns that count as not there; never a query's own positive.
    """
    group = teacher.shape[1]
    slots = torch.arange(group, device=logits.device)
    real = slots < sizes[:, None]
    # A slot that isn't there stands at the positive's column, which is left out of the others anyway.
    columns = torch.where(real, first[:, None] + slots, first[:, None])
    # The least finite number instead of -inf: a batch of one query has no others, and all -inf has no gradient.
    least = torch.finfo(logits.dtype).min
    own = logits.gather(1, columns)
    if left_out is not None:
        real = real & ~left_out.gather(1, columns)
        logits = logits.masked_fill(left_out, least)
    others = logits.scatter(1, columns, least).logsumexp(dim=1, keepdim=True)
    skipped = torch.ones(group, group, dtype=torch.bool, device=logits.device).tril(-1) | ~real[:, None, :]
    later = own.unsqueeze(1).masked_fill(skipped, least).logsumexp(dim=2)
    positive_only = torch.nn.functional.one_hot(torch.zeros_like(scored, dtype=torch.long), group).to(logits.dtype)
    scores = torch.where(scored[:, None], teacher, 0.0).to(logits.dtype) / teacher_temperature
    weights = torch.where(scored[:, None], scores.masked_fill(~real, -torch.inf).softmax(dim=1), positive_only)
    return (weights * (torch.logaddexp(others, later) - own)).sum(dim=1)


def info_nce(
    logits: Float[Tensor, "queries columns"], group: int | Int[Tensor, " groups"], offset: int = 0
) -> Float[Tensor, ""]:
    """Cross-entropy of each query's positive against every passage in the batch, averaged over queries.

    Args:
        logits: From `similarity_logits`.
        group: Passages of one query: 1 + negatives; or those of every group in the columns.
        offset: The group of the first query.

    Example:
        >>> logits = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        >>> info_nce(logits, group=2)
        tensor(0.7437)
        >>> info_nce(logits[:, :3], group=torch.tensor([2, 1]))
        tensor(0.5514)
    """
    return info_nce_rows(logits, first_columns(len(logits), group, offset, logits.device)).mean()


def distillation(
    logits: Float[Tensor, "queries columns"],
    teacher: Float[Tensor, "queries group"],
    scored: Bool[Tensor, " queries"],
    teacher_temperature: float = 1.0,
    offset: int = 0,
    sizes: Int[Tensor, " groups"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over queries of `distillation_rows`.

    Args:
        logits: From `similarity_logits`.
        teacher: The teacher's scores of each query's own passages; ignored where ``scored`` is false, and beyond a
            query's own passages where its group is smaller than the largest one.
        scored: Which queries have scores.
        teacher_temperature: Divides the scores.
        offset: The group of the first query.
        sizes: The passages of every group in the columns; without it all groups are as wide as ``teacher``.

    Example:
        >>> logits = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        >>> distillation(logits, torch.tensor([[100.0, 0.0], [0.0, 0.0]]), torch.tensor([True, False]))
        tensor(0.7437)
    """
    group, rows = teacher.shape[1], len(logits)
    first = first_columns(rows, group if sizes is None else sizes, offset, logits.device)
    own = torch.full((rows,), group, device=logits.device) if sizes is None else sizes[offset : offset + rows]
    return distillation_rows(logits, first, own, teacher, scored, teacher_temperature).mean()


def first_columns(
    queries: int, group: int | Int[Tensor, " groups"], offset: int, device: torch.device
) -> Int[Tensor, " queries"]:
    """The column of each query's positive: where its group begins.

    Example:
        >>> first_columns(2, 3, 1, torch.device("cpu")).tolist()
        [3, 6]
        >>> first_columns(2, torch.tensor([3, 1, 3]), 1, torch.device("cpu")).tolist()
        [3, 4]
    """
    if isinstance(group, int):
        return (torch.arange(queries, device=device) + offset) * group
    return (group.cumsum(0) - group)[offset : offset + queries]
