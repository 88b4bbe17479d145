"""`evaluate` and `evaluate_readings`: one model on one suite, through MTEB."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.evaluation.errors import EvaluationError
from lmk_eval.evaluation.per_query import read_per_query
from lmk_eval.evaluation.settings import Reading, Settings

if TYPE_CHECKING:
    from lmk_eval.evaluation.run import evaluate, evaluate_readings

__all__ = ["EvaluationError", "Reading", "Settings", "evaluate", "evaluate_readings", "read_per_query"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"evaluate": "lmk_eval.evaluation.run", "evaluate_readings": "lmk_eval.evaluation.run"}
)
