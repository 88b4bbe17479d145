"""Texts of one packed batch as rectangles, which is what `scaled_dot_product_attention` wants.

Texts stand longest first. Those of one length make a rectangle as they are, without a copy; those of nearly one length
make one with padding, where that costs less than another call would. Where the attention is local, long texts are cut
into blocks of queries that see their own keys and the blocks to either side: rectangles again, however long the text,
so that time and memory are linear in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

# What a call costs besides its cells of the attention matrix, and a token that is copied into a padded rectangle:
# measured on a CPU, in cells of one unit of width, and in cells.
_CALL_CELLS = 700_000
_COPY_CELLS = 80
# Up to this many windows a text is one rectangle with a band in it: as many cells as in blocks.
_DENSE_WINDOWS = 3

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class Rectangle:
    """Some texts, one behind the other, as rows of queries that see the keys of their row."""

    tokens: int
    """How many tokens the texts have."""
    rows: int
    width: int
    index: Int[Tensor, "rows width"] | None
    """Which of the tokens stands where; the padding repeats a row's last. None where the tokens fill the rows."""
    kept: Int[Tensor, " tokens"] | None
    """Where each token stands in the rows; None where ``index`` is."""
    mask: Float[Tensor, "#rows 1 #width width"] | None
    """Added to the scores: 0 or minus infinity."""


@dataclass(frozen=True)
class Blocks:
    """Some texts, one behind the other, cut into blocks that see themselves and the blocks before and behind."""

    tokens: int
    rows: int
    width: int
    mask: Float[Tensor, "rows 1 width keys"]
    """Added to the scores of a block's queries and the keys of three blocks: 0 or minus infinity."""


def plan_groups(
    lengths: Lengths, half_window: int | None, width: int, device: torch.device
) -> list[Rectangle | Blocks]:
    """Cut texts into groups, in order.

    Args:
        lengths: of the texts, longest first, none of them empty.
        half_window: a token sees this many tokens to either side; None for all of its text.
        width: of all heads together: the wider, the less a further call matters.
        device: where the indices and masks are wanted.
    """
    groups: list[Rectangle | Blocks] = []
    num_long = 0
    if half_window is not None:
        num_long = int((lengths > _DENSE_WINDOWS * max(half_window, 1)).sum())
        if num_long:
            groups.append(_blocks(lengths[:num_long], half_window, device))
    groups += [_rectangle(own, half_window, device) for own in _similar(lengths[num_long:], width)]
    return groups


def _similar(lengths: Lengths, width: int) -> Iterator[Lengths]:
    """Cut texts, longest first, into runs that are cheapest as one rectangle each (greedily)."""
    if not len(lengths):
        return
    call = _CALL_CELLS / width
    starts = np.flatnonzero(np.diff(lengths, prepend=-1))
    counts = np.diff(np.append(starts, len(lengths)))
    begin, longest, count = 0, int(lengths[0]), int(counts[0])
    cost = call + count * longest * longest
    for start, more in zip(starts[1:].tolist(), counts[1:].tolist(), strict=True):
        alone = call + more * int(lengths[start]) ** 2
        padded = call + (count + more) * longest * (longest + _COPY_CELLS)
        if padded < cost + alone:
            count, cost = count + more, padded
        else:
            yield lengths[begin:start]
            begin, longest, count, cost = start, int(lengths[start]), more, alone
    yield lengths[begin:]


def _rectangle(lengths: Lengths, half_window: int | None, device: torch.device) -> Rectangle:
    width, tokens, rows = int(lengths[0]), int(lengths.sum()), len(lengths)
    is_full = tokens == rows * width
    has_band = half_window is not None and width > half_window + 1
    steps = np.arange(width)
    inside = steps < lengths[:, None]
    # The padding's queries see what the last token sees: a row of nothing but -inf would be NaN.
    places = np.minimum(steps, lengths[:, None] - 1)
    mask = None
    if has_band:
        own = steps[None] if is_full else places
        near = np.abs(own[:, :, None] - steps) <= half_window
        mask = _additive((near if is_full else near & inside[:, None, :])[:, None], device)
    elif not is_full:
        mask = _additive(inside[:, None, None, :], device)
    if is_full:
        return Rectangle(tokens, rows, width, None, None, mask)
    starts = np.cumsum(lengths) - lengths
    index = torch.from_numpy(starts[:, None] + places).to(device)
    return Rectangle(tokens, rows, width, index, torch.from_numpy(np.flatnonzero(inside)).to(device), mask)


def _blocks(lengths: Lengths, half_window: int, device: torch.device) -> Blocks:
    tokens, width = int(lengths.sum()), max(half_window, 1)
    rows = -(-tokens // width)
    # Which text a place belongs to; the places before and behind all texts belong to none.
    text = np.full((rows + 2) * width, -1, dtype=np.int32)
    text[width : width + tokens] = np.repeat(np.arange(len(lengths)), lengths)
    queries = np.arange(width)[:, None] + width
    keys = np.arange(3 * width)
    near = np.abs(queries - keys) <= half_window
    of_queries = text[width:-width].reshape(rows, width, 1)
    of_keys = np.lib.stride_tricks.sliding_window_view(text, 3 * width)[::width][:, None, :]
    # Places behind the last text see themselves and each other, so that their rows are not NaN.
    return Blocks(tokens, rows, width, _additive((near & (of_queries == of_keys))[:, None], device))


def _additive(seen: NDArray[np.bool_], device: torch.device) -> Float[Tensor, "rows 1 #queries keys"]:
    mask = torch.zeros(seen.shape, dtype=torch.float32)
    return mask.masked_fill_(torch.from_numpy(~seen), float("-inf")).to(device)
