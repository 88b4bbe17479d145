"""Evaluation of embedding models through MTEB: suites of tasks, local data folders, one function.

Importing this package is light: mteb and torch are imported when `evaluate` is first asked for.
"""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.evaluation.errors import EvaluationError
from lmk_eval.evaluation.per_query import read_per_query
from lmk_eval.evaluation.settings import Reading, Settings
from lmk_eval.suites import Suite, SuiteError, Task

if TYPE_CHECKING:
    from lmk_eval.encoders import EmbedderEncoder
    from lmk_eval.evaluation import evaluate, evaluate_readings
    from lmk_eval.tasks import LocalRetrieval, TaskDataError

__all__ = [
    "EmbedderEncoder",
    "EvaluationError",
    "LocalRetrieval",
    "Reading",
    "Settings",
    "Suite",
    "SuiteError",
    "Task",
    "TaskDataError",
    "evaluate",
    "evaluate_readings",
    "read_per_query",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "EmbedderEncoder": "lmk_eval.encoders.adapter",
        "LocalRetrieval": "lmk_eval.tasks.local",
        "TaskDataError": "lmk_eval.tasks.folder",
        "evaluate": "lmk_eval.evaluation.run",
        "evaluate_readings": "lmk_eval.evaluation.run",
    },
)
