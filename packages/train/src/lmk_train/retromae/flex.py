"""The decoder's attention on a GPU: PyTorch's FlexAttention, whose kernel asks for each pair whether it is seen."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from lmk_train.retromae.attention import Sight

TILE = 128
"""Positions of a tile of the kernel."""


def flex(
    query: Float[Tensor, "tokens heads width"],
    key: Float[Tensor, "tokens heads width"],
    value: Float[Tensor, "tokens heads width"],
    sight: Sight,
    *,
    compiled: bool = True,
) -> Float[Tensor, "tokens heads width"]:
    """What `lmk_train.retromae.attention.blocked_attention` computes. Tiles without a common text are left out.

    Args:
        query: of each position.
        key: of each position.
        value: of each position.
        sight: what each position sees.
        compiled: without it FlexAttention computes whole matrices, and on a CPU has no gradient: for tests.
    """
    tokens, dtype = len(value), value.dtype
    behind = -tokens % TILE  # whole tiles, so that few shapes are compiled
    states = [
        functional.pad(part.to(dtype), (0, 0, 0, 0, 0, behind)).transpose(0, 1)[None] for part in (query, key, value)
    ]
    attend: Any = _compiled() if compiled else flex_attention
    out = attend(*states, block_mask=block_mask(sight, behind))
    return out[0].transpose(0, 1)[:tokens]


def block_mask(sight: Sight, behind: int = 0) -> BlockMask:
    """Which tiles have a pair of one text, and the question that the kernel asks for each pair of these.

    Made by hand from where texts begin: PyTorch's own maker looks at every pair. The ``behind`` places behind the last
    text are a text of their own, in which all see the first.
    """
    device = sight.patterns.device
    tokens = sight.bounds[-1]
    bounds = torch.tensor([*sight.bounds, *([tokens + behind] if behind else [])], device=device)
    starts = torch.repeat_interleave(bounds[:-1], bounds.diff(), output_size=tokens + behind)
    hidden = functional.pad(sight.hidden, (0, behind))
    patterns = functional.pad(sight.patterns, (0, behind))

    # Texts stand in order: tiles share one where the first text of each is not behind the last of the other.
    tiles = starts.view(-1, TILE)
    first, last = tiles[:, 0], tiles[:, -1]
    shared = (first[:, None] <= last) & (last[:, None] >= first)
    indices = shared.int().argsort(dim=1, descending=True, stable=True).int()
    return BlockMask.from_kv_blocks(
        shared.sum(1).int()[None, None],
        indices[None, None],
        BLOCK_SIZE=TILE,
        mask_mod=lambda _batch, _head, q, k: (
            (k == starts[q]) | ((starts[q] == starts[k]) & (q != k) & ~hidden[patterns[q], k])
        ),
    )


@cache
def _compiled() -> Any:
    return torch.compile(flex_attention, dynamic=True)
