"""Layouts: which special tokens stand where among a text's tokens, and which positions are pooled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.layouts.layout import Layout, Layouts
from lmk_core.lazy import lazy_exports
from lmk_core.texts import SpecialTokens, SpecialTokensError, TokenizedTexts

if TYPE_CHECKING:
    from lmk_core.layouts.batch import PackedBatch, PooledBatch, pack_layouts, pad_layouts
    from lmk_core.layouts.tokenizer import LandmarkTokenizer, PoolingTokenizer

__all__ = [
    "LandmarkTokenizer",
    "Layout",
    "Layouts",
    "PackedBatch",
    "PooledBatch",
    "PoolingTokenizer",
    "SpecialTokens",
    "SpecialTokensError",
    "TokenizedTexts",
    "pack_layouts",
    "pad_layouts",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "LandmarkTokenizer": "lmk_core.layouts.tokenizer",
        "PackedBatch": "lmk_core.layouts.batch",
        "PooledBatch": "lmk_core.layouts.batch",
        "PoolingTokenizer": "lmk_core.layouts.tokenizer",
        "pack_layouts": "lmk_core.layouts.batch",
        "pad_layouts": "lmk_core.layouts.batch",
    },
)
