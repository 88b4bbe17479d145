"""Figure 3: how many tokens the texts of a data set have, and what a maximum length cuts."""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.analyses.lengths.count import analyse_lengths, count_tokens

__all__ = ["analyse_lengths", "count_tokens"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {"analyse_lengths": "lmk_eval.analyses.lengths.count", "count_tokens": "lmk_eval.analyses.lengths.count"},
)
