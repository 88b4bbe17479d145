"""The objectives: InfoNCE and distillation over in-batch passages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.loss.contrastive import distillation, info_nce, similarity_logits

__all__ = ["distillation", "info_nce", "similarity_logits"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {"distillation": ".contrastive", "info_nce": ".contrastive", "similarity_logits": ".contrastive"},
)
