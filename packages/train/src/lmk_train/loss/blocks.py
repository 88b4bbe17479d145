"""A sum over rows of a matrix too large to be held at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

BlockLoss = Callable[[Tensor, Tensor, slice], Tensor]
"""From a block of own vectors, all others, and which own rows the block holds, to the sum of those rows' losses."""


def sum_in_blocks(
    own: Float[Tensor, "rows dim"], others: Float[Tensor, "columns dim"], loss: BlockLoss, rows_at_once: int
) -> Float[Tensor, ""]:
    """The sum of ``loss`` over all rows, ``rows_at_once`` at a time; the memory is that of one block.

    Each block's gradients are taken at once and its graph is dropped. The losses of rows have to be independent of each
    other. Nothing here is cast by an autocast around it: neither the losses nor their gradients, which it would compute
    in its own precision although the matrix product was not.

    Example:
        >>> own, others = torch.eye(3, requires_grad=True), torch.ones(2, 3)
        >>> total = sum_in_blocks(own, others, lambda block, others, rows: (block @ others.T).sum(), rows_at_once=2)
        >>> total.backward()
        >>> total.item(), own.grad[0].tolist()
        (6.0, [2.0, 2.0, 2.0])
    """
    return _SumInBlocks.apply(own, others, loss, rows_at_once)


class _SumInBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, others: Tensor, loss: BlockLoss, rows_at_once: int) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        others = others.detach().requires_grad_(wanted)
        total, gradients = others.new_zeros(()), []
        with torch.set_grad_enabled(wanted), torch.autocast(own.device.type, enabled=False):
            for start in range(0, len(own), rows_at_once):
                rows = slice(start, min(start + rows_at_once, len(own)))
                block = own[rows].detach().requires_grad_(wanted)
                part = loss(block, others, rows)
                if wanted:
                    part.backward()
                    gradients.append(block.grad)
                total += part.detach()
        if wanted:
            ctx.save_for_backward(torch.cat(gradients), others.grad)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        own, others = ctx.saved_tensors
        return own * gradients[0], others * gradients[0], None, None
