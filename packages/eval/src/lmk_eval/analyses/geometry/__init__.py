"""How the embeddings of a model fill their space."""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.analyses.geometry.analyse import analyse_geometry
    from lmk_eval.analyses.geometry.measure import effective_rank, mean_cosine, uniformity

__all__ = ["analyse_geometry", "effective_rank", "mean_cosine", "uniformity"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "analyse_geometry": "lmk_eval.analyses.geometry.analyse",
        "effective_rank": "lmk_eval.analyses.geometry.measure",
        "mean_cosine": "lmk_eval.analyses.geometry.measure",
        "uniformity": "lmk_eval.analyses.geometry.measure",
    },
)
