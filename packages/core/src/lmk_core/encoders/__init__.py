"""Encoders: loading one, and joining it to a reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.encoders.heads import load_language_head
    from lmk_core.encoders.loading import EncoderError, load_encoder
    from lmk_core.encoders.packed.attention import PackedAttentionError
    from lmk_core.encoders.pooled import PooledEncoder
    from lmk_core.encoders.saving import save_encoder

__all__ = [
    "EncoderError",
    "PackedAttentionError",
    "PooledEncoder",
    "load_encoder",
    "load_language_head",
    "save_encoder",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "EncoderError": "lmk_core.encoders.loading",
        "PackedAttentionError": "lmk_core.encoders.packed.attention",
        "PooledEncoder": "lmk_core.encoders.pooled",
        "load_encoder": "lmk_core.encoders.loading",
        "load_language_head": "lmk_core.encoders.heads",
        "save_encoder": "lmk_core.encoders.saving",
    },
)
