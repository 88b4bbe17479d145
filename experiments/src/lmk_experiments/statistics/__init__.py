"""What is known and what is noise: paired tests over queries, intervals, and their correction for many comparisons.

Importing this package imports numpy, and nothing heavier.
"""

from lmk_experiments.statistics.bootstrap import INTERVAL_RESAMPLES, intervals
from lmk_experiments.statistics.correction import holm
from lmk_experiments.statistics.queries import Contributions, PerQuery, Untested
from lmk_experiments.statistics.randomization import EXACT_QUERIES, RESAMPLES, randomization_test

__all__ = [
    "EXACT_QUERIES",
    "INTERVAL_RESAMPLES",
    "RESAMPLES",
    "Contributions",
    "PerQuery",
    "Untested",
    "holm",
    "intervals",
    "randomization_test",
]
