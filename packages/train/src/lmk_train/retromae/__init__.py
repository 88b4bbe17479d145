"""RetroMAE for any pooling: masks, the decoder and its attention, both losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.retromae.attention import Sight, blocked_attention, dense_attention
    from lmk_train.retromae.batches import MaskedBatch, MaskedText, Masking, pack_masked
    from lmk_train.retromae.decoder import PooledDecoder
    from lmk_train.retromae.model import Losses, RetroMae

__all__ = [
    "Losses",
    "MaskedBatch",
    "MaskedText",
    "Masking",
    "PooledDecoder",
    "RetroMae",
    "Sight",
    "blocked_attention",
    "dense_attention",
    "pack_masked",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Losses": ".model",
        "MaskedBatch": ".batches",
        "MaskedText": ".batches",
        "Masking": ".batches",
        "PooledDecoder": ".decoder",
        "RetroMae": ".model",
        "Sight": ".attention",
        "blocked_attention": ".attention",
        "dense_attention": ".attention",
        "pack_masked": ".batches",
    },
)
