"""How well documents are found by where the evidence stands in them, and by their length."""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.analyses.position.analyse import analyse_position
    from lmk_eval.analyses.position.groups import length_groups, position_groups

__all__ = ["analyse_position", "length_groups", "position_groups"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "analyse_position": "lmk_eval.analyses.position.analyse",
        "length_groups": "lmk_eval.analyses.position.groups",
        "position_groups": "lmk_eval.analyses.position.groups",
    },
)
