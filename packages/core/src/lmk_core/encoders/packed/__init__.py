"""Packed batches: texts one behind the other, without padding, each attending to itself only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_core.encoders.packed.attention import PackedAttentionError
    from lmk_core.encoders.packed.segments import Segments
    from lmk_core.encoders.packed.support import enable_packing, packing_obstacle

__all__ = ["PackedAttentionError", "Segments", "enable_packing", "packing_obstacle"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "PackedAttentionError": "lmk_core.encoders.packed.attention",
        "Segments": "lmk_core.encoders.packed.segments",
        "enable_packing": "lmk_core.encoders.packed.support",
        "packing_obstacle": "lmk_core.encoders.packed.support",
    },
)
