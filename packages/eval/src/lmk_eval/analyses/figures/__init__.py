"""What an analysis leaves behind: a plot, its data and its settings, in a folder."""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports
from lmk_eval.analyses.figures.result import Analysis, Row, summary_metrics

if TYPE_CHECKING:
    from lmk_eval.analyses.figures.files import write_analysis

__all__ = ["Analysis", "Row", "summary_metrics", "write_analysis"]

__getattr__, __dir__ = lazy_exports(__name__, {"write_analysis": "lmk_eval.analyses.figures.files"})
