"""Layouts of different lengths in one batch: padded, or packed one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32, Int64
from torch import Tensor

from lmk_core.layouts.layout import Layout, Layouts


class PooledBatch(TypedDict):
    """What `PooledEncoder` takes. A dictionary, so that ``encoder(**batch)`` works."""

    input_ids: Int[Tensor, "batch tokens"]
    attention_mask: Int[Tensor, "batch tokens"]
    pooling_mask: Bool[Tensor, "batch tokens"]


class PackedBatch(TypedDict):
    """A batch without padding: the texts one behind the other in one row."""

    input_ids: Int64[Tensor, " tokens"]
    """The ids of all the texts."""
    cu_seqlens: Int32[Tensor, " texts_and_one"]
    """Where each text begins, and at last the number of tokens."""
    max_seqlen: int
    """The tokens of the longest text."""
    pooled: Int64[Tensor, " pooled"]
    """The pooled positions, counted in ``input_ids``, ascending."""
    pooled_texts: Int64[Tensor, " pooled"]
    """Which text each pooled position belongs to."""


def pad_layouts(layouts: Sequence[Layout], pad_id: int) -> PooledBatch:
    """Pad on the right. Both masks are made from lengths and positions, never from ids.

    Returns ``input_ids`` and ``attention_mask`` (long) and ``pooling_mask`` (bool), each [batch, tokens].

    Raises:
        ValueError: if there is no layout.
    """
    flat = _flat(layouts, "pad")
    lengths = flat.lengths
    is_real = np.arange(lengths.max()) < lengths[:, None]
    input_ids = np.full(is_real.shape, pad_id, dtype=np.int64)
    input_ids[is_real] = flat.ids
    pooling_mask = np.zeros(is_real.shape, dtype=bool)
    pooling_mask[np.repeat(np.arange(len(flat)), np.diff(flat.pooled_bounds)), flat.pooled] = True
    return {
        "input_ids": torch.from_numpy(input_ids),
        "attention_mask": torch.from_numpy(is_real.astype(np.int64)),
        "pooling_mask": torch.from_numpy(pooling_mask),
    }


def pack_layouts(layouts: Sequence[Layout]) -> PackedBatch:
    """All the texts one behind the other, without padding.

    Raises:
        ValueError: if there is no layout.
    """
    flat = _flat(layouts, "pack")
    counts = np.diff(flat.pooled_bounds)
    return {
        "input_ids": torch.from_numpy(flat.ids.astype(np.int64)),
        "cu_seqlens": torch.from_numpy(flat.bounds.astype(np.int32)),
        "max_seqlen": int(flat.lengths.max()),
        "pooled": torch.from_numpy(flat.pooled + np.repeat(flat.bounds[:-1], counts)),
        "pooled_texts": torch.from_numpy(np.repeat(np.arange(len(flat)), counts)),
    }


def _flat(layouts: Sequence[Layout], verb: str) -> Layouts:
    if not len(layouts):
        raise ValueError(f"cannot {verb} an empty list of layouts")
    return layouts if isinstance(layouts, Layouts) else Layouts.from_list(layouts)
