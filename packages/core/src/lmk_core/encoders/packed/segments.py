"""`Segments`: where the texts of a packed batch begin and end, and the attention of each to itself."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from lmk_core.encoders.packed.groups import Blocks, Rectangle, plan_groups


class Segments:
    """The texts of one packed batch. Made once for a forward pass and handed to the attention of every layer.

    Args:
        cu_seqlens: cumulative lengths, from 0 to the number of tokens.
        max_seqlen: the longest text's.
    """

    def __init__(self, cu_seqlens: Int[Tensor, " bounds"], max_seqlen: int) -> None:
        self.cu_seqlens = cu_seqlens.to(torch.int32)
        self.max_seqlen = int(max_seqlen)
        self.layers = 0
        """How many attention layers have used this: an encoder that never asked would mix texts up."""
        self._plans: dict[int | None, list[Rectangle | Blocks]] = {}

    def positions(self, tokens: int) -> Int[Tensor, " tokens"]:
        """Each token's position in its own text."""
        starts = self.cu_seqlens[:-1].long()
        lengths = self.cu_seqlens.diff().long()
        every = torch.arange(tokens, device=starts.device)
        return every - torch.repeat_interleave(starts, lengths, output_size=tokens)

    @cached_property
    def longest_first(self) -> tuple[Segments, Int[Tensor, " tokens"], Int[Tensor, " tokens"]] | None:
        """The texts in the order that `attend` wants, or None if they stand so.

        Also which token comes where then, and where each token of now has gone.
        """
        bounds = self.cu_seqlens.cpu().numpy().astype(np.int64)
        lengths = np.diff(bounds)
        if (lengths[1:] <= lengths[:-1]).all():
            return None
        order = np.argsort(-lengths, kind="stable")
        new_bounds = np.append(0, np.cumsum(lengths[order]))
        taken = np.arange(bounds[-1]) + np.repeat(bounds[order] - new_bounds[:-1], lengths[order])
        gone = np.empty_like(taken)
        gone[taken] = np.arange(len(taken))
        device = self.cu_seqlens.device
        segments = Segments(torch.from_numpy(new_bounds).to(device), self.max_seqlen)
        return segments, torch.from_numpy(taken).to(device), torch.from_numpy(gone).to(device)

    def attend(
        self,
        query: Float[Tensor, "tokens heads width"],
        key: Float[Tensor, "tokens heads width"],
        value: Float[Tensor, "tokens heads width"],
        *,
        half_window: int | None,
        scale: float | None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "tokens heads width"]:
        """Exact attention inside each text, on any device, with a gradient. Texts stand longest first.

        Time and memory are linear in the length of a text where the attention is local.
        """
        groups = self.groups(half_window, query.shape[1] * query.shape[2], query.device)
        parts = [part.split([group.tokens for group in groups]) for part in (query, key, value)]
        outputs = [
            _attend_rectangle(group, *own, scale, dropout)
            if isinstance(group, Rectangle)
            else _attend_blocks(group, *own, scale, dropout)
            for group, *own in zip(groups, *parts, strict=True)
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def groups(self, half_window: int | None, width: int, device: torch.device) -> list[Rectangle | Blocks]:
        """The texts as `plan_groups` cuts them, which is done once. Texts stand longest first."""
        if half_window is not None and half_window + 1 >= self.max_seqlen:
            half_window = None  # the window reaches everywhere
        if half_window not in self._plans:
            lengths = self.cu_seqlens.diff().cpu().numpy().astype(np.int64)
            self._plans[half_window] = plan_groups(lengths[lengths > 0], half_window, width, device)
        return self._plans[half_window]


def _attend_rectangle(
    group: Rectangle, query: Tensor, key: Tensor, value: Tensor, scale: float | None, dropout: float
) -> Float[Tensor, "tokens heads width"]:
    def rows(states: Tensor) -> Float[Tensor, "rows heads width dim"]:
        if group.index is not None:
            states = states.index_select(0, group.index.reshape(-1))
        return states.reshape(group.rows, group.width, *states.shape[1:]).transpose(1, 2)

    out = _attention(rows(query), rows(key), rows(value), group.mask, scale, dropout)
    out = out.transpose(1, 2).reshape(-1, *query.shape[1:])
    return out if group.kept is None else out.index_select(0, group.kept)


def _attend_blocks(
    group: Blocks, query: Tensor, key: Tensor, value: Tensor, scale: float | None, dropout: float
) -> Float[Tensor, "tokens heads width"]:
    behind = group.rows * group.width - group.tokens
    queries = functional.pad(query, (0, 0, 0, 0, 0, behind)).view(group.rows, group.width, *query.shape[1:])

    keys, values = (windows_of(group, states) for states in (key, value))
    out = _attention(queries.transpose(1, 2), keys, values, group.mask, scale, dropout)
    return out.transpose(1, 2).reshape(-1, *query.shape[1:])[: group.tokens]


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, dropout: float
) -> Tensor:
    mask = None if mask is None else mask.to(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, dropout_p=dropout)


def windows_of(group: Blocks, states: Float[Tensor, "tokens heads dim"]) -> Float[Tensor, "rows heads keys dim"]:
    """The keys, or values, that each block of queries sees: those of the block before, its own, and those behind."""
    behind = group.rows * group.width - group.tokens
    padded = functional.pad(states, (0, 0, 0, 0, group.width, behind + group.width))
    return _Windows.apply(padded.view(group.rows + 2, group.width, *states.shape[1:]))


def add_windows(gradient: Float[Tensor, "rows heads keys dim"]) -> Float[Tensor, "blocks width heads dim"]:
    """The gradient of `windows_of`, with the blocks before and behind all texts."""
    rows, heads, keys, dim = gradient.shape
    before, own, behind = gradient.transpose(1, 2).split(keys // 3, dim=1)
    out = gradient.new_zeros(rows + 2, keys // 3, heads, dim)
    out[:-2] += before
    out[1:-1] += own
    out[2:] += behind
    return out


class _Windows(torch.autograd.Function):
    """Three blocks side by side for each block but the first and last: a view, whose gradient is three additions.

    The gradient of `torch.Tensor.unfold` is the same and several times slower on a CPU.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ARG004 - PyTorch passes it
        blocks: Float[Tensor, "blocks width heads dim"],
    ) -> Float[Tensor, "rows heads keys dim"]:
        rows, width, heads, dim = blocks.shape[0] - 2, *blocks.shape[1:]
        strides = (width * heads * dim, dim, heads * dim, 1)
        return blocks.contiguous().as_strided((rows, heads, 3 * width, dim), strides)

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ARG004 - PyTorch passes it
        *gradients: Float[Tensor, "rows heads keys dim"],
    ) -> Float[Tensor, "blocks width heads dim"]:
        return add_windows(gradients[0])
