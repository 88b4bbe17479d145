"""`Embedder`: a model, its tokenizer and its pooling in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.embedder.embedder import Embedder
    from lmk_core.embedder.encoding import LandmarkVectors

__all__ = ["Embedder", "LandmarkVectors"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {"Embedder": "lmk_core.embedder.embedder", "LandmarkVectors": "lmk_core.embedder.encoding"},
)
