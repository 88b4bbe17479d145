"""What to evaluate on: a `Suite` is a named list of `Task`s. Plain data; nothing here imports mteb or torch."""

from lmk_eval.suites.names import SuiteError, check_name
from lmk_eval.suites.shipped import shipped_suite, shipped_suites
from lmk_eval.suites.sizes import TaskSize, task_sizes
from lmk_eval.suites.suite import Suite
from lmk_eval.suites.task import LOCAL_KINDS, Task

__all__ = [
    "LOCAL_KINDS",
    "Suite",
    "SuiteError",
    "Task",
    "TaskSize",
    "check_name",
    "shipped_suite",
    "shipped_suites",
    "task_sizes",
]
