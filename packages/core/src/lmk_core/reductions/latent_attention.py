"""Latent attention: every token attends to trained latent vectors, then the mean. Section 3.2 of the paper."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from lmk_core.reductions.mean import masked_mean


class LatentAttention(nn.Module):
    """The paper's latent attention pooling (section 3.2, arXiv 2601.21525)::

        q = W_Q h,   k = W_K L,   v = W_V L
        Y = CrossAttention(LayerNorm(q), k, v) + q
        Z = FFN(LayerNorm(Y)) + Y
        vector = mean of Z over the pooled positions

    The attention has the usual output projection, the FFN is two layers with GELU and a hidden width of four times
    ``dim``. The parameters are float32, whatever the encoder's type.

    Args:
        dim: width of the hidden states.
        num_latents: number of latent vectors L.
        heads: attention heads; None takes one for each 64 dimensions, or one if ``dim`` is no multiple of 64.

    Raises:
        ValueError: if ``heads`` does not divide ``dim``.
    """

    def __init__(self, dim: int, num_latents: int = 64, heads: int | None = None) -> None:
        super().__init__()
        if heads is None:
            heads = dim // 64 if dim % 64 == 0 else 1
        if dim % heads:
            raise ValueError(f"latent_heads: {heads} does not divide the width of the hidden states, {dim}")
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(num_latents, dim) * 0.02)
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.output = nn.Linear(dim, dim, bias=False)
        self.attention_norm = nn.LayerNorm(dim)
        self.ffn_norm = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(
        self, hidden: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch dim"]:
        """Reduce the positions where ``mask`` is true, in float32."""
        query = self.query(hidden.to(self.query.weight.dtype))
        mixed = query + self._attend(self.attention_norm(query))
        return masked_mean(mixed + self.ffn(self.ffn_norm(mixed)), mask)

    def _attend(self, query: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens dim"]:
        batch, tokens, dim = query.shape
        split = (self.heads, dim // self.heads)
        queries = query.view(batch, tokens, *split).transpose(1, 2)
        keys = self.key(self.latents).view(1, -1, *split).transpose(1, 2).expand(batch, -1, -1, -1)
        values = self.value(self.latents).view(1, -1, *split).transpose(1, 2).expand(batch, -1, -1, -1)
        attended = functional.scaled_dot_product_attention(queries.to(keys.dtype), keys, values)
        return self.output(attended.transpose(1, 2).reshape(batch, tokens, dim))
