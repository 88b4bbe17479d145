"""The tasks a suite names, as MTEB runs them. Reading a folder (`read_folder`) imports neither mteb nor torch."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.tasks.folder import FolderData, Query, TaskDataError, fingerprint, read_folder

if TYPE_CHECKING:
    from lmk_eval.tasks.local import LocalRetrieval
    from lmk_eval.tasks.opening import open_task

__all__ = ["FolderData", "LocalRetrieval", "Query", "TaskDataError", "fingerprint", "open_task", "read_folder"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"LocalRetrieval": "lmk_eval.tasks.local", "open_task": "lmk_eval.tasks.opening"}
)
