"""InfoNCE, and the distillation of a teacher's scores, over the passages of a whole batch.

Both read one matrix of logits ``[queries, columns]`` whose columns are passages in groups: group ``i`` is the positive
of query ``i`` followed by its drawn negatives. With passages of several processes in the columns, ``offset`` says at
which group this process' own begin.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def similarity_logits(
    queries: Float[Tensor, "queries dim"], passages: Float[Tensor, "columns dim"], temperature: float
) -> Float[Tensor, "queries columns"]:
    """Cosine similarity of unit vectors, divided by the temperature, in float32 under any autocast.

    In bfloat16 the logits of two nearly equal vectors at temperature 0.02 would stand on a grid of about 0.2.
    """
    with torch.autocast(queries.device.type, enabled=False):
        return queries.float() @ passages.float().T / temperature


def info_nce(logits: Float[Tensor, "queries columns"], group: int, offset: int = 0) -> Float[Tensor, ""]:
    """Cross-entropy of each query's positive against every passage in the batch, averaged over queries.

    Args:
        logits: From :func:`similarity_logits`.
        group: Passages of one query: 1 + negatives.
        offset: The group of the first query.

    Example:
        >>> logits = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        >>> info_nce(logits, group=2)
        tensor(0.7437)
    """
    first = (torch.arange(len(logits), device=logits.device) + offset) * group
    return torch.nn.functional.cross_entropy(logits, first)


def distillation(
    logits: Float[Tensor, "queries columns"],
    teacher: Float[Tensor, "queries group"],
    scored: Bool[Tensor, " queries"],
    teacher_temperature: float = 1.0,
    offset: int = 0,
) -> Float[Tensor, ""]:
    """The distillation of the paper's runs, in one pass; rows without scores use InfoNCE.

    For query ``q`` with teacher weights ``t = softmax(scores / teacher_temperature)`` over its own passages,

        L = sum_i t_i * (log(sum_others exp(s) + sum_{j >= i} exp(s_j)) - s_i)

    that is: own passage ``i`` is the target of a softmax over all passages in which own passages ``0 .. i-1`` are left
    out. With all the weight on the positive it is InfoNCE, which is how a row without scores is computed.

    Args:
        logits: From :func:`similarity_logits`.
        teacher: The teacher's scores of each query's own passages; ignored where ``scored`` is false.
        scored: Which queries have scores.
        teacher_temperature: Divides the scores.
        offset: The group of the first query.

    Returns:
        The mean over queries.

    Example:
        >>> logits = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        >>> distillation(logits, torch.tensor([[100.0, 0.0], [0.0, 0.0]]), torch.tensor([True, False]))
        tensor(0.7437)
    """
    group = teacher.shape[1]
    columns = own_columns(len(logits), group, offset, logits.device)
    own = logits.gather(1, columns)
    # The least finite number instead of -inf: a batch of one query has no others, and all -inf has no gradient.
    least = torch.finfo(logits.dtype).min
    others = logits.scatter(1, columns, least).logsumexp(dim=1, keepdim=True)
    earlier = torch.ones(group, group, dtype=torch.bool, device=logits.device).tril(-1)
    later = own.unsqueeze(1).masked_fill(earlier, least).logsumexp(dim=2)
    positive_only = torch.nn.functional.one_hot(torch.zeros_like(scored, dtype=torch.long), group).to(logits.dtype)
    softened = torch.softmax(torch.where(scored[:, None], teacher, 0.0).to(logits.dtype) / teacher_temperature, dim=1)
    weights = torch.where(scored[:, None], softened, positive_only)
    return (weights * (torch.logaddexp(others, later) - own)).sum(dim=1).mean()


def own_columns(queries: int, group: int, offset: int, device: torch.device) -> Int[Tensor, "queries group"]:
    """The columns of each query's own passages.

    Example:
        >>> own_columns(2, 3, 0, torch.device("cpu")).tolist()
        [[0, 1, 2], [3, 4, 5]]
    """
    first = (torch.arange(queries, device=device) + offset) * group
    return first[:, None] + torch.arange(group, device=device)
