"""Choosing the reduction of a pooling strategy."""

from __future__ import annotations

from torch import nn

from lmk_core.pooling import PoolingConfig
from lmk_core.reductions.latent_attention import LatentAttention
from lmk_core.reductions.mean import MaskedMean


def build_reduction(pooling: PoolingConfig, dim: int) -> nn.Module:
    """The reduction of ``pooling`` for hidden states of width ``dim``; new parameters, if it has any, are random.

    A reduction takes ``hidden`` [batch, tokens, dim] and ``mask`` [batch, tokens] and gives float32 [batch, dim]; its
    ``packed`` takes pooled rows [pooled, dim], the text of each [pooled], and the number of texts.
    """
    if pooling.kind == "latent_attention":
        return LatentAttention(dim, pooling.num_latents or 64, pooling.latent_heads)
    return MaskedMean()
