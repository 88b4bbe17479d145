"""How much of a device a training uses: what a step computes, and what the device could."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.throughput.flops import ModelFlops
    from lmk_train.throughput.peaks import peak_flops

__all__ = ["ModelFlops", "peak_flops"]

__getattr__, __dir__ = lazy_exports(__name__, {"ModelFlops": ".flops", "peak_flops": ".peaks"})
