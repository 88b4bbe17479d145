"""Multilabel classification on own texts. Reading a folder (`read_labels`) imports neither mteb nor torch."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports
from lmk_eval.labels.folder import LabelledTexts, labels_fingerprint, read_labels

if TYPE_CHECKING:
    from lmk_eval.labels.task import LocalMultilabel

__all__ = ["LabelledTexts", "LocalMultilabel", "labels_fingerprint", "read_labels"]

__getattr__, __dir__ = lazy_exports(__name__, {"LocalMultilabel": "lmk_eval.labels.task"})
