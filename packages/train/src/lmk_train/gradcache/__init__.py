"""Exact gradients of a batch too large for the memory: chunks of a number of tokens, encoded twice (GradCache).

The loss needs all vectors at once, their activations do not fit. So the vectors are computed without a graph, the loss
gives each vector's gradient, and each chunk is encoded once more to carry its part into the weights (Gao et al. 2021,
https://arxiv.org/abs/2101.06983).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lmk_core.lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_train.gradcache.chunks import plan_chunks
    from lmk_train.gradcache.engine import GradientEngine, Pass
    from lmk_train.loss.agreement import PeerFailedError

__all__ = ["GradientEngine", "Pass", "PeerFailedError", "plan_chunks"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "GradientEngine": ".engine",
        "Pass": ".engine",
        "PeerFailedError": "..loss.agreement",
        "plan_chunks": ".chunks",
    },
)
