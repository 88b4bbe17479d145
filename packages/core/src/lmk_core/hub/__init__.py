"""Saved models for others: the files that Sentence Transformers opens, and the card that a hub shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.hub.config import SavedConfig
    from lmk_core.hub.loading import load_sentence_transformer
    from lmk_core.hub.travelling import travelling_source

__all__ = ["SavedConfig", "load_sentence_transformer", "travelling_source"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "SavedConfig": "lmk_core.hub.config",
        "load_sentence_transformer": "lmk_core.hub.loading",
        "travelling_source": "lmk_core.hub.travelling",
    },
)
