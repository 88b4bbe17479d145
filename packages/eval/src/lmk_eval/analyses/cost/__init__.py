"""What landmarks cost: tokens that are added, text that no longer fits, seconds."""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.analyses.cost.analyse import analyse_cost
    from lmk_eval.analyses.cost.measure import Tokens, count_layouts

__all__ = ["Tokens", "analyse_cost", "count_layouts"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Tokens": "lmk_eval.analyses.cost.measure",
        "analyse_cost": "lmk_eval.analyses.cost.analyse",
        "count_layouts": "lmk_eval.analyses.cost.measure",
    },
)
