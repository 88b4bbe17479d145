"""Landmark (LMK) pooling and its baselines for dense text embeddings.

A pooling strategy is a *layout* (which special tokens stand where, and which positions are pooled) and a *reduction*
(how the hidden states at those positions become one vector). Importing this package does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports
from lmk_core.pooling import PoolingConfig, PoolingConfigError, draw_granularity
from lmk_core.recording import NullRecorder, PrintRecorder, Recorder
from lmk_core.version import __version__

if TYPE_CHECKING:
    from lmk_core.embedder import Embedder
    from lmk_core.encoders import PooledEncoder, load_encoder
    from lmk_core.hub import load_sentence_transformer
    from lmk_core.layouts import LandmarkTokenizer, Layout, Layouts, PoolingTokenizer, SpecialTokens, TokenizedTexts

__all__ = [
    "Embedder",
    "LandmarkTokenizer",
    "Layout",
    "Layouts",
    "NullRecorder",
    "PooledEncoder",
    "PoolingConfig",
    "PoolingConfigError",
    "PoolingTokenizer",
    "PrintRecorder",
    "Recorder",
    "SpecialTokens",
    "TokenizedTexts",
    "__version__",
    "draw_granularity",
    "load_encoder",
    "load_sentence_transformer",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Embedder": "lmk_core.embedder",
        "LandmarkTokenizer": "lmk_core.layouts",
        "Layout": "lmk_core.layouts",
        "Layouts": "lmk_core.layouts",
        "PooledEncoder": "lmk_core.encoders",
        "PoolingTokenizer": "lmk_core.layouts",
        "SpecialTokens": "lmk_core.layouts",
        "TokenizedTexts": "lmk_core.layouts",
        "load_encoder": "lmk_core.encoders",
        "load_sentence_transformer": "lmk_core.hub",
    },
)
