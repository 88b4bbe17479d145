"""What people do with cells that are there: compare two of them, and delete what is not needed any more."""

from lmk_experiments.upkeep.clean import Kept, Leftover, delete, find_leftovers, format_bytes, logged_models
from lmk_experiments.upkeep.compare import Comparison, Pair, compare
from lmk_experiments.upkeep.find import Side, find_side

__all__ = [
    "Comparison",
    "Kept",
    "Leftover",
    "Pair",
    "Side",
    "compare",
    "delete",
    "find_leftovers",
    "find_side",
    "format_bytes",
    "logged_models",
]
