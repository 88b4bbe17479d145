"""What makes a training of RetroMAE's losses: texts, batches, the step, and the way to the fine-tune."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.pretraining.data import PretrainingData, TextBatch
    from lmk_train.pretraining.module import PretrainingModule

__all__ = ["PretrainingData", "PretrainingModule", "TextBatch"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"PretrainingData": ".data", "PretrainingModule": ".module", "TextBatch": ".data"}
)
