"""Latent attention: every token attends to trained latent vectors, then the mean. Section 3.2 of the paper."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lmk_core.reductions.mean import masked_mean, segment_mean


class LatentAttention(nn.Module):
    """The paper's latent attention pooling (section 3.2, arXiv 2601.21525)::

        q = W_Q h,   k = W_K LayerNorm(L),   v = W_V LayerNorm(L)
        Y = W_O CrossAttention(LayerNorm(q), k, v) + q
        Z = FFN(LayerNorm(Y)) + Y
        vector = mean of Z over the pooled positions

    What the paper's formula does not say: the LayerNorm of the latents L, the heads and their output projection W_O,
    that no projection has a bias, that the FFN is two layers with biases and GELU, its hidden width four times
    ``dim``, and how all of it starts. Here the latents are drawn from N(0, 1) and the rest as `torch.nn.Linear` does.
    Latents much smaller than the queries, without the LayerNorm, would start with uniform attention and next to
    nothing of it in Y; a short training at a small learning rate leaves it there.

    How the authors' code (github.com/meetdoshi90/LMK-Pooling) differs, though it has the same latents, LayerNorms and
    mean: the first LayerNorm is of h, before W_Q, and the residual is h itself, not q; each head is as wide as
    ``dim``, so that queries, keys and values are ``heads * dim`` wide in all, and here ``dim``; the FFN is a GEGLU
    with four times ``dim`` gated units.

    The parameters are float32, whatever the encoder's type.

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
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.output = nn.Linear(dim, dim, bias=False)
        self.latent_norm = nn.LayerNorm(dim)
        self.attention_norm = nn.LayerNorm(dim)
        self.ffn_norm = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(
        self, hidden: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch dim"]:
        """Reduce the positions where ``mask`` is true.

        Under autocast the projections, the attention and the FFN are in its type; the mean is always in float32.
        """
        return masked_mean(self._mix(hidden), mask)

    def packed(
        self, hidden: Float[Tensor, "pooled dim"], texts: Int[Tensor, " pooled"], num_texts: int
    ) -> Float[Tensor, "texts dim"]:
        """Reduce rows of which ``texts`` says to which text each belongs. A token never looks at another."""
        return segment_mean(self._mix(hidden.unsqueeze(0)).squeeze(0), texts, num_texts)

    def _mix(self, hidden: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens dim"]:
        query = self.query(hidden.to(self.query.weight.dtype))
        mixed = query + self._attend(self.attention_norm(query))
        return mixed + self.ffn(self.ffn_norm(mixed))

    def _attend(self, query: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens dim"]:
        batch, tokens, dim = query.shape
        split = (self.heads, dim // self.heads)
        queries = query.view(batch, tokens, *split).transpose(1, 2)
        latents = self.latent_norm(self.latents)
        keys = self.key(latents).view(1, -1, *split).transpose(1, 2).expand(batch, -1, -1, -1)
        values = self.value(latents).view(1, -1, *split).transpose(1, 2).expand(batch, -1, -1, -1)
        attended = functional.scaled_dot_product_attention(queries.to(keys.dtype), keys, values)
        return self.output(attended.transpose(1, 2).reshape(batch, tokens, dim))
