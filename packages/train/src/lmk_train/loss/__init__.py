"""The objectives: InfoNCE and distillation over the passages of a step, on any number of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.loss.contrastive import distillation, info_nce, similarity_logits
    from lmk_train.loss.gather import gather_rows, share_counts
    from lmk_train.loss.objective import ContrastiveObjective, Targets

__all__ = [
    "ContrastiveObjective",
    "Targets",
    "distillation",
    "gather_rows",
    "info_nce",
    "share_counts",
    "similarity_logits",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ContrastiveObjective": ".objective",
        "Targets": ".objective",
        "distillation": ".contrastive",
        "gather_rows": ".gather",
        "info_nce": ".contrastive",
        "share_counts": ".gather",
        "similarity_logits": ".contrastive",
    },
)
