"""Rotation and attention of packed texts in one step of the graph, for a CPU in float32.

What `Segments.attend` does with many small operations, each with a gradient of its own, is one operation here: queries
and keys are rotated where the projection has left them, groups read and write slices of one array, and the gradient of
that array is written once. It calls the same kernel, so that the numbers are the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from lmk_core.encoders.packed.groups import Blocks, Rectangle
from lmk_core.encoders.packed.segments import add_windows, windows_of

_KERNEL = "_scaled_dot_product_flash_attention_for_cpu"
HAS_KERNEL = hasattr(torch.ops.aten, _KERNEL) and hasattr(torch.ops.aten, f"{_KERNEL}_backward")
"""Whether this PyTorch has the two operations by the names that are used here."""


class _Group(NamedTuple):
    """What a group's gradient needs, as the kernel took and gave it."""

    query: Float[Tensor, "rows heads width dim"]
    key: Float[Tensor, "rows heads keys dim"]
    value: Float[Tensor, "rows heads keys dim"]
    out: Float[Tensor, "rows heads width dim"]
    log_sum: Tensor


def fused_attention(
    qkv: Float[Tensor, "tokens width_of_three"],
    cos: Float[Tensor, "tokens half"],
    sin: Float[Tensor, "tokens half"],
    groups: Sequence[Rectangle | Blocks],
    scale: float,
) -> Float[Tensor, "tokens width"]:
    """Attention inside each text, of queries and keys that are rotated by their positions.

    Args:
        qkv: A projection's output, queries then keys then values, and inside each the heads. It is overwritten, and
            must be used by nothing else.
        cos: Of the angle of each pair, ``half`` the width of a head: its first half is rotated against its second.
        sin: Of the same.
        groups: The texts, longest first, from `plan_groups`.
        scale: Of the scores.
    """
    return _Fused.apply(qkv, cos, sin, groups, scale)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, cos: Tensor, sin: Tensor, groups: Sequence[Rectangle | Blocks], scale: float
    ) -> Tensor:
        half = cos.shape[-1]
        states = qkv.view(len(qkv), 3, -1, 2 * half)
        _rotate(states[:, :2], cos, sin)
        out = torch.empty_like(states[:, 0], memory_format=torch.contiguous_format)
        kept, start = [], 0
        for group in groups:
            part = slice(start, start + group.tokens)
            kept.append(_forward(group, states[part], out[part], scale))
            start = part.stop
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(cos, sin, *(tensor for each in kept for tensor in each))
            ctx.groups, ctx.scale, ctx.shape = groups, scale, states.shape
        return out.view(len(qkv), -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        cos, sin, *saved = ctx.saved_tensors
        width = len(_Group._fields)
        _, _, heads, dim = ctx.shape
        incoming = gradients[0].reshape(-1, heads, dim)
        gradient = incoming.new_empty(ctx.shape)
        start = 0
        for number, group in enumerate(ctx.groups):
            part = slice(start, start + group.tokens)
            own = _Group(*saved[number * width : (number + 1) * width])
            _backward(group, own, incoming[part], gradient[part], ctx.scale)
            start = part.stop
        _rotate(gradient[:, :2], cos, sin, back=True)
        return gradient.view(len(gradient), -1), None, None, None, None


def _rotate(
    states: Float[Tensor, "tokens parts heads dim"],
    cos: Float[Tensor, "tokens half"],
    sin: Float[Tensor, "tokens half"],
    *,
    back: bool = False,
) -> None:
    """Rotates in place: the first half of each head against the second."""
    first, second = states.chunk(2, dim=-1)
    cos, sin = cos[:, None, None], sin[:, None, None]
    sign = -1 if back else 1
    moved = first * sin
    first.mul_(cos).addcmul_(second, sin, value=-sign)
    second.mul_(cos).add_(moved, alpha=sign)


def _forward(
    group: Rectangle | Blocks,
    states: Float[Tensor, "tokens 3 heads dim"],
    out: Float[Tensor, "tokens heads dim"],
    scale: float,
) -> _Group:
    """Attends inside a group, into ``out``."""
    if isinstance(group, Rectangle):
        if group.index is not None:
            states = states.index_select(0, group.index.reshape(-1))
        query, key, value = states.view(group.rows, group.width, *states.shape[1:]).permute(2, 0, 3, 1, 4)
    else:
        behind = group.rows * group.width - group.tokens
        query = functional.pad(states[:, 0], (0, 0, 0, 0, 0, behind))
        query = query.view(group.rows, group.width, *query.shape[1:]).transpose(1, 2)
        key, value = (windows_of(group, states[:, which]) for which in (1, 2))
    kernel = getattr(torch.ops.aten, _KERNEL)
    result, log_sum = kernel(query, key, value, 0.0, False, attn_mask=group.mask, scale=scale)
    flat = result.transpose(1, 2).reshape(-1, *out.shape[1:])
    if isinstance(group, Rectangle) and group.index is None:
        out.copy_(flat)
        # The copy serves the gradient too, so that the result is not kept twice.
        result = out.view(group.rows, group.width, *out.shape[1:]).transpose(1, 2)
    elif isinstance(group, Rectangle):
        assert group.kept is not None
        torch.index_select(flat, 0, group.kept, out=out)
    else:
        out.copy_(flat[: group.tokens])
    return _Group(query, key, value, result, log_sum)


def _backward(
    group: Rectangle | Blocks,
    own: _Group,
    incoming: Float[Tensor, "tokens heads dim"],
    gradient: Float[Tensor, "tokens 3 heads dim"],
    scale: float,
) -> None:
    """Carries ``incoming`` to a group's queries, keys and values, into ``gradient``."""
    rows = _as_rows(group, incoming).transpose(1, 2)
    kernel = getattr(torch.ops.aten, f"{_KERNEL}_backward")
    parts = kernel(
        rows, own.query, own.key, own.value, own.out, own.log_sum, 0.0, False, attn_mask=group.mask, scale=scale
    )
    for which, part in enumerate(parts):
        if which and isinstance(group, Blocks):
            folded = add_windows(part).view(-1, *gradient.shape[2:])
            gradient[:, which] = folded[group.width : group.width + group.tokens]
            continue
        flat = part.transpose(1, 2).reshape(-1, *gradient.shape[2:])
        # Padding sees nothing that is kept and is seen by nothing: its gradients are zeros.
        kept = group.kept if isinstance(group, Rectangle) else None
        gradient[:, which] = flat[: group.tokens] if kept is None else flat.index_select(0, kept)


def _as_rows(
    group: Rectangle | Blocks, states: Float[Tensor, "tokens heads dim"]
) -> Float[Tensor, "rows width heads dim"]:
    """Tokens in the rows of their group, zeros where there is none."""
    shape = (group.rows, group.width, *states.shape[1:])
    if group.tokens == group.rows * group.width:
        return states.view(shape)
    if isinstance(group, Rectangle):
        assert group.kept is not None
        padded = states.new_zeros(group.rows * group.width, *states.shape[1:])
        return padded.index_copy_(0, group.kept, states).view(shape)
    return functional.pad(states, (0, 0, 0, 0, 0, group.rows * group.width - group.tokens)).view(shape)
