"""Layouts of different lengths in one padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lmk_core.layouts.layout import Layout


class PooledBatch(TypedDict):
    """What `PooledEncoder` takes. A dictionary, so that ``encoder(**batch)`` works."""

    input_ids: Int[Tensor, "batch tokens"]
    attention_mask: Int[Tensor, "batch tokens"]
    pooling_mask: Bool[Tensor, "batch tokens"]


def pad_layouts(layouts: Sequence[Layout], pad_id: int) -> PooledBatch:
    """Pad on the right. Both masks are made from lengths and positions, never from ids.

    Returns ``input_ids`` and ``attention_mask`` (long) and ``pooling_mask`` (bool), each [batch, tokens].

    Raises:
        ValueError: if there is no layout.
    """
    if not layouts:
        raise ValueError("cannot pad an empty list of layouts")
    shape = (len(layouts), max(len(layout.input_ids) for layout in layouts))
    input_ids = np.full(shape, pad_id, dtype=np.int64)
    attention_mask = np.zeros(shape, dtype=np.int64)
    pooling_mask = np.zeros(shape, dtype=bool)
    for row, layout in enumerate(layouts):
        input_ids[row, : len(layout.input_ids)] = layout.input_ids
        attention_mask[row, : len(layout.input_ids)] = 1
        pooling_mask[row, layout.pooled] = True
    return {
        "input_ids": torch.from_numpy(input_ids),
        "attention_mask": torch.from_numpy(attention_mask),
        "pooling_mask": torch.from_numpy(pooling_mask),
    }
