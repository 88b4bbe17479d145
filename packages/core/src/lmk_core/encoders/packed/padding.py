"""How much of what the attention of packed texts computes is padding."""

from __future__ import annotations

import numpy as np

from lmk_core.encoders.packed.groups import _DENSE_WINDOWS, Lengths, _similar


def attention_rows(lengths: Lengths, half_window: int | None, width: int) -> int:
    """The queries that `Segments.attend` computes for texts in one layer, those of padding included.

    Args:
        lengths: of the texts, in any order.
        half_window: a token sees this many tokens to either side; None for all of its text.
        width: of all heads together.

    Example:
        >>> attention_rows(np.array([5, 4, 4]), None, 64)
        15
    """
    ordered = -np.sort(-lengths[lengths > 0])
    if not len(ordered) or (half_window is not None and half_window + 1 >= ordered[0]):
        half_window = None
    rows, num_long = 0, 0
    if half_window is not None:
        block = max(half_window, 1)
        num_long = int((ordered > _DENSE_WINDOWS * block).sum())
        rows = -(-int(ordered[:num_long].sum()) // block) * block
    return rows + sum(len(own) * int(own[0]) for own in _similar(ordered[num_long:], width))
