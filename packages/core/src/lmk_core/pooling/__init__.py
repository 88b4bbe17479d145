"""What a pooling strategy is, as plain data. Nothing here imports torch."""

from __future__ import annotations

from lmk_core.pooling.config import KINDS, PoolingConfig, PoolingConfigError
from lmk_core.pooling.draw import draw_granularity

__all__ = ["KINDS", "PoolingConfig", "PoolingConfigError", "draw_granularity"]
