"""The attention that transformers calls for packed batches, by way of its attention interface.

An encoder whose config names `NAME` works as before on padded batches (transformers' own SDPA attention). Called with
``packed_segments`` it attends inside each text only: on CUDA with `torch.nn.attention.varlen`, elsewhere, and where
that kernel cannot (float32, dropout, an older GPU), with `Segments.attend`. The choice is made by the arguments of the
call and their device alone, so that gradient checkpointing, which calls again later, gets the same.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from lmk_core.encoders.packed.segments import Segments

NAME = "lmk_sdpa"
# What other attentions add to the scores; none of it is known to the packed one.
_FOREIGN = ("position_bias", "softcap", "s_aux", "head_mask")


class PackedAttentionError(ValueError):
    """A packed batch on an encoder that would look across texts."""


def packed_attention(
    module: nn.Module,
    query: Float[Tensor, "batch heads tokens width"],
    key: Float[Tensor, "batch heads tokens width"],
    value: Float[Tensor, "batch heads tokens width"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    packed_segments: Segments | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The function of transformers' attention interface. Gives [batch, tokens, heads, width].

    Raises:
        PackedAttentionError: for packed texts and anything besides them that decides who attends to whom.
    """
    if packed_segments is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    _refuse(module, query, key, attention_mask, options)
    packed_segments.layers += 1
    # transformers says half a window and one, as the flash kernels of old counted: see ModernBertAttention.
    half_window = None if sliding_window is None else sliding_window - 1
    dtype = _dtype(value)
    states = [part[0].transpose(0, 1).to(dtype) for part in (query, key, value)]
    if value.is_cuda and dtype != torch.float32 and dropout == 0.0 and _flash_takes(value):
        out = _varlen(*states, segments=packed_segments, half_window=half_window, scale=scaling)
    else:
        out = _anywhere(*states, segments=packed_segments, half_window=half_window, scale=scaling, dropout=dropout)
    return out.unsqueeze(0), None


def has_flash_kernel(device: torch.device) -> bool:
    """Whether PyTorch's flash kernel runs there: on CUDA from Ampere (8.0) on, not on a T4 or V100."""
    return device.type == "cuda" and (torch.version.hip is not None or torch.cuda.get_device_capability(device)[0] >= 8)


def _flash_takes(value: Float[Tensor, "batch heads tokens width"]) -> bool:
    """Heads must be of a multiple of 8 and of 256 at most."""
    return value.shape[-1] % 8 == 0 and value.shape[-1] <= 256 and has_flash_kernel(value.device)


def _varlen(
    query: Float[Tensor, "tokens heads width"],
    key: Float[Tensor, "tokens heads width"],
    value: Float[Tensor, "tokens heads width"],
    *,
    segments: Segments,
    half_window: int | None,
    scale: float | None,
) -> Float[Tensor, "tokens heads width"]:
    """PyTorch's own flash kernel for texts of different lengths. Its window counts the tokens on either side."""
    from torch.nn.attention.varlen import varlen_attn

    bounds, longest = segments.cu_seqlens, segments.max_seqlen
    window = (-1, -1) if half_window is None else (half_window, half_window)
    out: Any = varlen_attn(query, key, value, bounds, bounds, longest, longest, scale=scale, window_size=window)
    return out


def _anywhere(
    query: Float[Tensor, "tokens heads width"],
    key: Float[Tensor, "tokens heads width"],
    value: Float[Tensor, "tokens heads width"],
    *,
    segments: Segments,
    half_window: int | None,
    scale: float | None,
    dropout: float,
) -> Float[Tensor, "tokens heads width"]:
    """`Segments.attend`, with texts put in its order and back where they do not stand so (on a GPU)."""
    in_order = segments.longest_first
    if in_order is None:
        return segments.attend(query, key, value, half_window=half_window, scale=scale, dropout=dropout)
    ordered, taken, gone = in_order
    query, key, value = (states.index_select(0, taken) for states in (query, key, value))
    out = ordered.attend(query, key, value, half_window=half_window, scale=scale, dropout=dropout)
    return out.index_select(0, gone)


def _dtype(value: Tensor) -> torch.dtype:
    """Under autocast its own type: rotary embeddings leave float32 queries and keys beside bfloat16 values."""
    kind = value.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else value.dtype


def _refuse(module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]) -> None:
    name = type(module).__name__
    foreign = [option for option in _FOREIGN if options.get(option) is not None]
    if mask is not None:
        foreign.append("attention_mask")
    if options.get("is_causal") or getattr(module, "is_causal", False):
        foreign.append("is_causal")
    if foreign:
        raise PackedAttentionError(f"{name}: packed texts cannot be combined with {', '.join(foreign)}")
    if query.shape[0] != 1 or query.shape != key.shape:
        raise PackedAttentionError(
            f"{name}: packed texts are one row, with as many keys as queries; found {tuple(query.shape)} queries and "
            f"{tuple(key.shape)} keys"
        )


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
