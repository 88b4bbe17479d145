"""What Lightning trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.modules.contrastive import ContrastiveModule
    from lmk_train.modules.finite import NonFiniteError, check_weights
    from lmk_train.modules.schedule import warmup_then_decay

__all__ = ["ContrastiveModule", "NonFiniteError", "check_weights", "warmup_then_decay"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ContrastiveModule": ".contrastive",
        "NonFiniteError": ".finite",
        "check_weights": ".finite",
        "warmup_then_decay": ".schedule",
    },
)
