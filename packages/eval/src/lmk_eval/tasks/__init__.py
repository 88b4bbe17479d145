"""The tasks a suite names, as MTEB runs them. Reading a folder (`read_folder`) imports neither mteb nor torch."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.tasks.folder import FolderData, Query, TaskDataError, fingerprint, read_folder

if TYPE_CHECKING:
    from lmk_eval.tasks.documents import task_documents
    from lmk_eval.tasks.local import LocalRetrieval
    from lmk_eval.tasks.opening import DataMissing, load_task, open_task

__all__ = [
    "DataMissing",
    "FolderData",
    "LocalRetrieval",
    "Query",
    "TaskDataError",
    "fingerprint",
    "load_task",
    "open_task",
    "read_folder",
    "task_documents",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DataMissing": "lmk_eval.tasks.opening",
        "LocalRetrieval": "lmk_eval.tasks.local",
        "load_task": "lmk_eval.tasks.opening",
        "open_task": "lmk_eval.tasks.opening",
        "task_documents": "lmk_eval.tasks.documents",
    },
)
