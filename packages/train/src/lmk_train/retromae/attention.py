"""What each position of RetroMAE's decoder sees, and exact attention to it in memory that is linear in a text's length.

RetroMAE (Xiao et al. 2022, https://arxiv.org/abs/2205.12035, section 3.3): a position sees the pooled vector, which
stands at its text's first position, and the tokens that its own drawn pattern leaves it, but never itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

BLOCK = 128
"""Queries that are computed at once: as many rows of a text's attention are there at a time."""


@dataclass(frozen=True)
class Sight:
    """What the positions of some texts, one behind the other, see of their own text.

    Position q sees position k where k is the text's first one, or k is not q and q's pattern does not hide k.
    """

    bounds: tuple[int, ...]
    """Where each text begins, and at last the number of tokens."""
    hidden: Bool[Tensor, "patterns tokens"]
    """The tokens that each pattern hides."""
    patterns: Int[Tensor, " tokens"]
    """The pattern of each position."""

    def of(self, start: int, queries: slice, stop: int) -> Bool[Tensor, "queries keys"]:
        """What some positions of the text from ``start`` to ``stop`` see of it."""
        seen = ~self.hidden[self.patterns[queries], start:stop]
        rows = torch.arange(queries.stop - queries.start, device=seen.device)
        seen[rows, rows + (queries.start - start)] = False
        seen[:, 0] = True
        return seen

    def blocks(self, size: int) -> Iterator[tuple[slice, slice]]:
        """Some queries at a time, with the keys of their text."""
        for start, stop in zip(self.bounds, self.bounds[1:], strict=False):
            for first in range(start, stop, size):
                yield slice(first, min(first + size, stop)), slice(start, stop)


def blocked_attention(
    query: Float[Tensor, "tokens heads width"],
    key: Float[Tensor, "tokens heads width"],
    value: Float[Tensor, "tokens heads width"],
    sight: Sight,
    block: int = BLOCK,
) -> Float[Tensor, "tokens heads width"]:
    """Attention, ``block`` rows at a time, on any device. The way back computes each block again.

    Neither the scores nor the mask of a whole text is ever there: beside what goes in and comes out, memory is that of
    ``block`` rows.
    """
    dtype = value.dtype
    out: Any = _Blocked.apply(query.to(dtype), key.to(dtype), value, sight, block)
    return out


def dense_attention(
    query: Float[Tensor, "tokens heads width"],
    key: Float[Tensor, "tokens heads width"],
    value: Float[Tensor, "tokens heads width"],
    sight: Sight,
) -> Float[Tensor, "tokens heads width"]:
    """The same from whole matrices, as it is written down: for short texts, to test the others against."""
    parts = []
    for start, stop in zip(sight.bounds, sight.bounds[1:], strict=False):
        own = slice(start, stop)
        scores = torch.einsum("qhw,khw->hqk", query[own], key[own]) / query.shape[-1] ** 0.5
        scores = scores.masked_fill(~sight.of(start, own, stop), float("-inf"))
        parts.append(torch.einsum("hqk,khw->qhw", scores.softmax(-1), value[own]))
    return torch.cat(parts)


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, sight: Sight, block: int) -> Tensor:
        ctx.save_for_backward(query, key, value)
        ctx.sight, ctx.block = sight, block
        out = torch.empty_like(query)
        for queries, keys in sight.blocks(block):
            out[queries] = _attend(query[queries], key[keys], value[keys], sight, queries, keys)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        (gradient,) = gradients
        whole = ctx.saved_tensors
        sums = [torch.zeros_like(tensor) for tensor in whole]
        for queries, keys in ctx.sight.blocks(ctx.block):
            places = (queries, keys, keys)
            parts = [tensor[place].detach().requires_grad_() for tensor, place in zip(whole, places, strict=True)]
            with torch.enable_grad():
                out = _attend(*parts, ctx.sight, queries, keys)
            for total, place, part in zip(
                sums, places, torch.autograd.grad(out, parts, gradient[queries]), strict=True
            ):
                total[place] += part
        return sums[0], sums[1], sums[2], None, None


def _attend(
    query: Float[Tensor, "queries heads width"],
    key: Float[Tensor, "keys heads width"],
    value: Float[Tensor, "keys heads width"],
    sight: Sight,
    queries: slice,
    keys: slice,
) -> Float[Tensor, "queries heads width"]:
    seen = sight.of(keys.start, queries, keys.stop)
    states = (part.transpose(0, 1)[None] for part in (query, key, value))
    with torch.autocast(query.device.type, enabled=False):
        return functional.scaled_dot_product_attention(*states, attn_mask=seen)[0].transpose(0, 1)
