"""Rows of different lengths, one behind the other in one array: row i is ``values[bounds[i] : bounds[i + 1]]``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def to_bounds(lengths: Ints) -> Ints:
    """[rows] lengths -> [rows + 1] bounds, beginning with 0."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """The integers from each start on, as many as its length: [rows], [rows] -> [sum of the lengths]."""
    bounds = to_bounds(lengths)
    return np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], lengths)


def row_sums(values: NDArray, bounds: Ints) -> Ints:
    """[all values] -> [rows], 0 for an empty row."""
    total = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=total[1:])
    return total[bounds[1:]] - total[bounds[:-1]]


def checked_indices(indices: Sequence[int] | Ints, num_rows: int) -> Ints:
    """Indices of rows as an array, negative ones counted from the end.

    Raises:
        IndexError: if one is out of range.
    """
    rows = np.asarray(indices, dtype=np.int64).reshape(-1)
    if len(rows) and (rows.min() < -num_rows or rows.max() >= num_rows):
        bad = int(rows[(rows < -num_rows) | (rows >= num_rows)][0])
        raise IndexError(f"index {bad} is out of range for {num_rows} texts")
    return np.where(rows < 0, rows + num_rows, rows)
