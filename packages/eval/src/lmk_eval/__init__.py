"""Evaluation of embedding models through MTEB: suites of tasks, local data folders, one function.

Importing this package is light: mteb and torch are imported when `evaluate` is first asked for.
"""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.suites import Suite, SuiteError, Task

if TYPE_CHECKING:
    from lmk_eval.encoders import EmbedderEncoder
    from lmk_eval.evaluation import EvaluationError, evaluate
    from lmk_eval.tasks import LocalRetrieval, TaskDataError

__all__ = [
    "EmbedderEncoder",
    "EvaluationError",
    "LocalRetrieval",
    "Suite",
    "SuiteError",
    "Task",
    "TaskDataError",
    "evaluate",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "EmbedderEncoder": "lmk_eval.encoders.adapter",
        "EvaluationError": "lmk_eval.evaluation.errors",
        "LocalRetrieval": "lmk_eval.tasks.local",
        "TaskDataError": "lmk_eval.tasks.folder",
        "evaluate": "lmk_eval.evaluation.run",
    },
)
