"""Layouts: which special tokens stand where among a text's tokens, and which positions are pooled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.layouts.layout import Layout
from lmk_core.layouts.special_tokens import SpecialTokens, SpecialTokensError
from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.layouts.batch import PooledBatch, pad_layouts
    from lmk_core.layouts.tokenizer import LandmarkTokenizer, PoolingTokenizer

__all__ = [
    "LandmarkTokenizer",
    "Layout",
    "PooledBatch",
    "PoolingTokenizer",
    "SpecialTokens",
    "SpecialTokensError",
    "pad_layouts",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "LandmarkTokenizer": "lmk_core.layouts.tokenizer",
        "PooledBatch": "lmk_core.layouts.batch",
        "PoolingTokenizer": "lmk_core.layouts.tokenizer",
        "pad_layouts": "lmk_core.layouts.batch",
    },
)
