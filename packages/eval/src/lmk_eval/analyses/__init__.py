"""The paper's analyses (Figures 2 to 4) and three more: each gives its numbers, and a plot to print.

Importing this package is light: torch and matplotlib are imported when an analysis is first asked for.
"""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports
from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures import Analysis

if TYPE_CHECKING:
    from lmk_eval.analyses.attention import analyse_attention
    from lmk_eval.analyses.cost import analyse_cost
    from lmk_eval.analyses.figures import write_analysis
    from lmk_eval.analyses.geometry import analyse_geometry
    from lmk_eval.analyses.landmarks import analyse_landmarks
    from lmk_eval.analyses.lengths import analyse_lengths
    from lmk_eval.analyses.position import analyse_position
    from lmk_eval.analyses.series import Series

__all__ = [
    "Analysis",
    "AnalysisError",
    "Series",
    "analyse_attention",
    "analyse_cost",
    "analyse_geometry",
    "analyse_landmarks",
    "analyse_lengths",
    "analyse_position",
    "write_analysis",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Series": "lmk_eval.analyses.series",
        "analyse_attention": "lmk_eval.analyses.attention",
        "analyse_cost": "lmk_eval.analyses.cost",
        "analyse_geometry": "lmk_eval.analyses.geometry",
        "analyse_landmarks": "lmk_eval.analyses.landmarks",
        "analyse_lengths": "lmk_eval.analyses.lengths",
        "analyse_position": "lmk_eval.analyses.position",
        "write_analysis": "lmk_eval.analyses.figures",
    },
)
