"""Reductions: from the hidden states at the pooled positions to one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.reductions.build import build_reduction
    from lmk_core.reductions.latent_attention import LatentAttention
    from lmk_core.reductions.mean import MaskedMean, masked_mean, segment_mean

__all__ = ["LatentAttention", "MaskedMean", "build_reduction", "masked_mean", "segment_mean"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "LatentAttention": "lmk_core.reductions.latent_attention",
        "MaskedMean": "lmk_core.reductions.mean",
        "build_reduction": "lmk_core.reductions.build",
        "masked_mean": "lmk_core.reductions.mean",
        "segment_mean": "lmk_core.reductions.mean",
    },
)
