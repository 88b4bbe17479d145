"""The mean over the pooled positions."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def masked_mean(
    hidden: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
) -> Float[Tensor, "batch dim"]:
    """Mean of ``hidden`` where ``mask`` is true, in float32. A row without any true position gives zeros.

    What stands at the other positions does not matter, not even NaN.
    """
    selected = hidden.float().masked_fill(~mask.unsqueeze(-1), 0.0)
    return selected.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


def segment_mean(
    hidden: Float[Tensor, "pooled dim"], texts: Int[Tensor, " pooled"], num_texts: int
) -> Float[Tensor, "texts dim"]:
    """Mean of the rows of each text, in float32: ``texts`` says which one a row is of. One without rows gives zeros."""
    sums = hidden.new_zeros((num_texts, hidden.shape[1]), dtype=torch.float32).index_add(0, texts, hidden.float())
    counts = torch.bincount(texts, minlength=num_texts).clamp(min=1)
    return sums / counts.unsqueeze(1)


class MaskedMean(nn.Module):
    """`masked_mean` as a module without parameters: the reduction of every kind but latent attention."""

    def forward(
        self, hidden: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch dim"]:
        """See `masked_mean`."""
        return masked_mean(hidden, mask)

    def packed(
        self, hidden: Float[Tensor, "pooled dim"], texts: Int[Tensor, " pooled"], num_texts: int
    ) -> Float[Tensor, "texts dim"]:
        """See `segment_mean`."""
        return segment_mean(hidden, texts, num_texts)
