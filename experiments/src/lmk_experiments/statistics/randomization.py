"""The paired randomization test (Fisher's, over queries): would two systems that do not differ look so different?"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, UInt8

RESAMPLES = 9_999
"""Random assignments of a test that is not exact: the smallest p-value is one ten-thousandth."""
EXACT_QUERIES = 13
"""Up to this many queries with a difference, all assignments are looked at (at most 8,192)."""
_CHUNK = 4_000_000
"""Signs that are held in memory at a time."""
_TIE = 1e-10
"""Two sums closer than this, relative to what they could be, are equal: floats add up in an order of their own."""


def randomization_test(
    differences: Float[np.ndarray, "rows queries"], *, resamples: int = RESAMPLES, seed: int = 0
) -> Float[np.ndarray, " rows"]:
    """Two-sided p-values of the hypothesis that a row and the baseline may be swapped query by query.

    The statistic is the sum of a row's differences. Under the hypothesis every query's sign is a fair coin's, so each
    stratum keeps its own queries whatever weight they have: weighted differences make the test a stratified one. With
    at most ``EXACT_QUERIES`` differences that are not zero the test is exact; else p is ``(b + 1) / (resamples + 1)``,
    with ``b`` the drawn assignments at least as extreme (Phipson and Smyth, 2010), which never is too small.

    Args:
        differences: each query's share of the row's figure minus that of the baseline's.
        resamples: assignments drawn; the rows share them, which makes no p-value less valid.
        seed: of the draws. The same differences give the same p-values.
    """
    p = np.ones(len(differences))
    if not differences.size:
        return p
    moving = (differences != 0).sum(axis=1)
    for row in np.flatnonzero((moving > 0) & (moving <= EXACT_QUERIES)):
        p[row] = _exact(differences[row, differences[row] != 0])
    drawn = moving > EXACT_QUERIES
    if drawn.any():
        p[drawn] = _drawn(differences[drawn], resamples, np.random.default_rng(seed))
    return p


def _exact(differences: Float[np.ndarray, " queries"]) -> float:
    count = len(differences)
    flips = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    return float(_extreme(flips.astype(np.uint8), differences[None]).mean())


def _drawn(differences: Float[np.ndarray, "rows queries"], resamples: int, rng: np.random.Generator) -> np.ndarray:
    differences = differences[:, (differences != 0).any(axis=0)]
    queries = differences.shape[1]
    chunk = max(1, _CHUNK // queries)
    extreme = np.zeros(len(differences))
    for start in range(0, resamples, chunk):
        wanted = min(chunk, resamples - start)
        packed = rng.integers(0, 256, size=(wanted, (queries + 7) // 8), dtype=np.uint8)
        extreme += _extreme(np.unpackbits(packed, axis=1, count=queries), differences).sum(axis=0)
    return (extreme + 1) / (resamples + 1)


def _extreme(
    flips: UInt8[np.ndarray, "draws queries"], differences: Float[np.ndarray, "rows queries"]
) -> Bool[np.ndarray, "draws rows"]:
    """Whether the sum with these signs is at least as far from zero as the sum that was seen."""
    seen = differences.sum(axis=1)
    sums = seen - 2 * (flips.astype(np.float64) @ differences.T)
    return np.abs(sums) >= np.abs(seen) - _TIE * np.abs(differences).sum(axis=1)
