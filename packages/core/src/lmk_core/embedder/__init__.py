"""`Embedder`: a model, its tokenizer and its pooling in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.embedder.embedder import Embedder
    from lmk_core.embedder.encoding import LandmarkVectors
    from lmk_core.embedder.files import VectorFileError
    from lmk_core.embedder.options import EncodeOptions

__all__ = ["Embedder", "EncodeOptions", "LandmarkVectors", "VectorFileError"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Embedder": "lmk_core.embedder.embedder",
        "EncodeOptions": "lmk_core.embedder.options",
        "LandmarkVectors": "lmk_core.embedder.encoding",
        "VectorFileError": "lmk_core.embedder.files",
    },
)
