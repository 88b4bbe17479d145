"""Effective rank, uniformity and mean cosine of unit vectors. Numpy only, in float64, block by block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Float64

_BLOCK = 1024


def singular_shares(vectors: Float[np.ndarray, "texts dim"]) -> Float64[np.ndarray, " rank"]:
    """The singular values of the vectors, largest first, divided by their sum."""
    values = np.linalg.svd(vectors.astype(np.float64), compute_uv=False)
    return values / max(values.sum(), np.finfo(np.float64).tiny)


def effective_rank(vectors: Float[np.ndarray, "texts dim"]) -> float:
    """How many directions the vectors use: the exponential of the entropy of their singular values' shares.

    Between 1 (all on one line) and the smaller of ``texts`` and ``dim`` (all directions alike). Roy and Vetterli, "The
    effective rank: a measure of effective dimensionality", 2007. The vectors are not centred.
    """
    shares = singular_shares(vectors)
    held = shares[shares > 0]
    return float(np.exp(-(held * np.log(held)).sum()))


def uniformity(vectors: Float[np.ndarray, "texts dim"]) -> float:
    """The logarithm of the mean of exp(-2 |x - y|^2) over all pairs of different texts; the vectors have length 1.

    0 when all vectors are one; about -4 when they are spread evenly over a sphere of many dimensions. Lower is more
    uniform. Wang and Isola, "Understanding contrastive representation learning", 2020, with t = 2.
    """
    return float(np.log(_over_pairs(vectors, lambda cosines: np.exp(4 * cosines - 4))))


def mean_cosine(vectors: Float[np.ndarray, "texts dim"]) -> float:
    """The mean cosine of all pairs of different texts; 0 when directions cancel, near 1 when all point one way."""
    return float(_over_pairs(vectors, lambda cosines: cosines))


def _over_pairs(vectors: Float[np.ndarray, "texts dim"], value: Callable[[np.ndarray], np.ndarray]) -> float:
    """The mean of a function of the cosine over all pairs, without a matrix of all of them."""
    wide = vectors.astype(np.float64)
    count = len(wide)
    total = 0.0
    for start in range(0, count, _BLOCK):
        block = wide[start : start + _BLOCK] @ wide.T
        values = value(block)
        own = np.arange(len(block))
        total += float(values.sum() - values[own, start + own].sum())
    return total / (count * (count - 1))
