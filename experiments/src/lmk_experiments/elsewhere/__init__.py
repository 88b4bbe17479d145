"""Rows from elsewhere: MTEB's results of any model, beside ours. Importing this package does not import mteb."""

from lmk_experiments.elsewhere.results import Elsewhere, read_results
from lmk_experiments.elsewhere.rows import ABSENT, is_elsewhere, rows_of, scores_of

__all__ = ["ABSENT", "Elsewhere", "is_elsewhere", "read_results", "rows_of", "scores_of"]
