"""The mean over the pooled positions."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn


def masked_mean(
    hidden: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
) -> Float[Tensor, "batch dim"]:
    """Mean of ``hidden`` where ``mask`` is true, in float32. A row without any true position gives zeros.

    What stands at the other positions does not matter, not even NaN.
    """
    selected = hidden.float().masked_fill(~mask.unsqueeze(-1), 0.0)
    return selected.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


class MaskedMean(nn.Module):
    """`masked_mean` as a module without parameters: the reduction of every kind but latent attention."""

    def forward(
        self, hidden: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch dim"]:
        """See `masked_mean`."""
        return masked_mean(hidden, mask)
