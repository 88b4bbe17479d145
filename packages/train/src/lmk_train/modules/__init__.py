"""What Lightning trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.modules.contrastive import ContrastiveModule
    from lmk_train.modules.divergence import DivergenceError
    from lmk_train.modules.finite import NonFiniteError, check_weights
    from lmk_train.modules.schedule import warmup_then_decay
    from lmk_train.modules.stepping import SteppedModule, StepReport

__all__ = [
    "ContrastiveModule",
    "DivergenceError",
    "NonFiniteError",
    "StepReport",
    "SteppedModule",
    "check_weights",
    "warmup_then_decay",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ContrastiveModule": ".contrastive",
        "DivergenceError": ".divergence",
        "NonFiniteError": ".finite",
        "StepReport": ".stepping",
        "SteppedModule": ".stepping",
        "check_weights": ".finite",
        "warmup_then_decay": ".schedule",
    },
)
