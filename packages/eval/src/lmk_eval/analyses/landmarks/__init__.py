"""Figure 4: whether a landmark of a long document still tells the chunks beside it."""

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.analyses.landmarks.analyse import analyse_landmarks
    from lmk_eval.analyses.landmarks.hits import neighbour_hits
    from lmk_eval.analyses.landmarks.vectors import Chunked, chunk_document

__all__ = ["Chunked", "analyse_landmarks", "chunk_document", "neighbour_hits"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Chunked": "lmk_eval.analyses.landmarks.vectors",
        "analyse_landmarks": "lmk_eval.analyses.landmarks.analyse",
        "chunk_document": "lmk_eval.analyses.landmarks.vectors",
        "neighbour_hits": "lmk_eval.analyses.landmarks.hits",
    },
)
