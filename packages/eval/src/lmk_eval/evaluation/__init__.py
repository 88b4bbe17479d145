"""`evaluate`: one reading of one model on one suite, through MTEB."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.evaluation.errors import EvaluationError

if TYPE_CHECKING:
    from lmk_eval.evaluation.run import evaluate

__all__ = ["EvaluationError", "evaluate"]

__getattr__, __dir__ = lazy_exports(__name__, {"evaluate": "lmk_eval.evaluation.run"})
