"""Confidence intervals by the bootstrap over queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

INTERVAL_RESAMPLES = 2_000
"""Samples of queries that an interval is read from."""
_CHUNK = 4_000_000
"""Drawn queries that are held in memory at a time."""


def intervals(
    values: Float[np.ndarray, "rows queries"],
    strata: Sequence[int],
    *,
    confidence: float = 0.95,
    resamples: int = INTERVAL_RESAMPLES,
    seed: int = 0,
) -> Float[np.ndarray, "rows 2"]:
    """Percentile intervals of the rows' sums when queries are drawn anew, with replacement, within each stratum.

    All rows see the same draws, so that the interval of a row of differences is a paired one.

    Args:
        values: each query's share of the row's figure: its score times its weight. A row's sum is its figure.
        strata: how many queries each stratum has, in the order of ``values``; a macro average has one for each task.
        confidence: the mass between the bounds.
    """
    if sum(strata) != values.shape[1]:
        raise ValueError(f"strata of {sum(strata)} queries in all, but there are values of {values.shape[1]}")
    rng = np.random.default_rng(seed)
    sums = np.zeros((resamples, len(values)))
    at = 0
    for size in strata:
        part = values[:, at : at + size].T
        chunk = max(1, _CHUNK // max(1, size))
        for start in range(0, resamples, chunk):
            stop = min(resamples, start + chunk)
            sums[start:stop] += _counts(rng, stop - start, size) @ part
        at += size
    outside = (1 - confidence) / 2
    return np.quantile(sums, [outside, 1 - outside], axis=0).T


def _counts(rng: np.random.Generator, draws: int, size: int) -> Float[np.ndarray, "draws size"]:
    """How often each query of a stratum is drawn, for each of ``draws`` samples."""
    drawn = rng.integers(0, size, size=(draws, size), dtype=np.int64)
    drawn += (np.arange(draws) * size)[:, None]
    return np.bincount(drawn.ravel(), minlength=draws * size).reshape(draws, size).astype(np.float64)
