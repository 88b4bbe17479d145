"""Which encoders take packed batches, and running one."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lmk_core.encoders.packed.attention import NAME, PackedAttentionError
from lmk_core.encoders.packed.modernbert import shorten
from lmk_core.encoders.packed.segments import Segments

ROTARY = ("modernbert", "gte")
TABLE = ("bert", "electra")
TABLE_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")
"""Positions count from behind the padding index, and an id that is the padding's takes the padding's position."""
SUPPORTED = (*ROTARY, *TABLE, *TABLE_AFTER_PADDING)


def packing_obstacle(encoder: nn.Module) -> str | None:
    """Why this encoder cannot take packed batches, or None if it can."""
    config: Any = getattr(encoder, "config", None)
    kind = getattr(config, "model_type", type(encoder).__name__)
    if kind not in SUPPORTED:
        return f"the model type {kind!r} is not known to keep packed texts apart; known: {', '.join(SUPPORTED)}"
    if getattr(config, "is_decoder", False):
        return "a decoder looks at earlier tokens only"
    implementation = config._attn_implementation
    if implementation not in ("sdpa", NAME):
        return f"its attention implementation is {implementation!r}; packed batches need 'sdpa'"
    return None


def enable_packing(encoder: nn.Module) -> None:
    """Let the encoder take packed batches. Padded ones are computed as before, and nothing of it is saved.

    Raises:
        PackedAttentionError: if the encoder would look across texts.
    """
    obstacle = packing_obstacle(encoder)
    if obstacle is not None:
        raise PackedAttentionError(f"packed batches: {obstacle}; pad them instead")
    config: Any = encoder.config
    config._attn_implementation = NAME
    if config.model_type == "modernbert":
        shorten(encoder)


def run_packed(
    encoder: nn.Module, input_ids: Int[Tensor, " tokens"], segments: Segments
) -> Float[Tensor, "tokens dim"]:
    """The encoder's last hidden states, each text seeing itself only and counting positions from its own start.

    Raises:
        PackedAttentionError: if the encoder would look across texts, or its attention did not ask who may see whom.
    """
    enable_packing(encoder)
    # The flash kernel takes texts as they come; the attention of the CPU wants them longest first.
    in_order = None if input_ids.is_cuda else segments.longest_first
    if in_order is None:
        return _run(encoder, input_ids, segments)
    segments, taken, gone = in_order
    return _run(encoder, input_ids.index_select(0, taken), segments).index_select(0, gone)


def _run(encoder: nn.Module, input_ids: Int[Tensor, " tokens"], segments: Segments) -> Float[Tensor, "tokens dim"]:
    config: Any = encoder.config
    options: dict[str, Any] = {"position_ids": _positions(encoder, input_ids, segments).unsqueeze(0)}
    if config.model_type == "modernbert":
        # It would build a dense band for its local layers; a dictionary is taken as it is.
        options["attention_mask"] = {"full_attention": None, "sliding_attention": None}
    before = segments.layers
    states = encoder(input_ids=input_ids.unsqueeze(0), packed_segments=segments, **options).last_hidden_state
    if segments.layers - before != config.num_hidden_layers:
        raise PackedAttentionError(
            f"packed batches: {segments.layers - before} of {config.num_hidden_layers} layers of "
            f"{type(encoder).__name__} kept texts apart; pad them instead"
        )
    return states[0]


def _positions(encoder: nn.Module, input_ids: Int[Tensor, " tokens"], segments: Segments) -> Int[Tensor, " tokens"]:
    positions = segments.positions(len(input_ids))
    config: Any = encoder.config
    if config.model_type not in TABLE_AFTER_PADDING:
        return positions
    padding = int(config.pad_token_id)
    is_real = input_ids.ne(padding).long()
    counted = torch.cat([is_real.new_zeros(1), is_real.cumsum(0)])
    before = counted[:-1][torch.arange(len(input_ids), device=input_ids.device) - positions]
    return (counted[1:] - before) * is_real + padding
