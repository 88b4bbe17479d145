"""ModernBERT's layers with a shorter way through packed texts on a CPU.

They are subclasses of those of transformers, with the same parameters and nothing else in them: what they do not do
themselves is what it was.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu
from transformers.activations import GELUActivation
from transformers.models.modernbert.modeling_modernbert import ModernBertAttention, ModernBertMLP

from lmk_core.encoders.packed.fused import HAS_KERNEL, fused_attention
from lmk_core.encoders.packed.gated import gated_gelu
from lmk_core.encoders.packed.segments import Segments

KNOWN_TO_OTHERS = ("is_causal", "position_bias", "softcap", "s_aux", "head_mask")
"""What would change who sees whom, or how much: the longer way refuses it."""


class PackedModernBertAttention(ModernBertAttention):
    """For packed texts on a CPU in float32, without dropout of attention weights, `fused_attention`."""

    def forward(
        self,
        hidden_states: Float[Tensor, "batch tokens dim"],
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        packed_segments: Segments | None = options.get("packed_segments")
        if packed_segments is None:
            return super().forward(hidden_states, position_embeddings, attention_mask, **options)
        is_plain = attention_mask is None and not self.is_causal and not any(map(options.get, KNOWN_TO_OTHERS))
        if position_embeddings is None or not is_plain or not self._is_short(hidden_states, packed_segments):
            return super().forward(hidden_states, position_embeddings, attention_mask, **options)
        packed_segments.layers += 1
        half_window = None if self.sliding_window is None else self.sliding_window - 1
        # Both halves of a head turn by the same angles.
        cos, sin = (table[0, :, : self.head_dim // 2].contiguous() for table in position_embeddings)
        out = fused_attention(
            self.Wqkv(hidden_states)[0],
            cos,
            sin,
            packed_segments.groups(half_window, self.config.hidden_size, hidden_states.device),
            self.head_dim**-0.5,
        )
        return self.out_drop(self.Wo(out.unsqueeze(0))), None

    def _is_short(self, hidden: Tensor, segments: Segments) -> bool:
        return (
            HAS_KERNEL
            and _is_plain(hidden)
            and hidden.dtype == self.Wqkv.weight.dtype
            and (not self.training or self.attention_dropout == 0.0)
            and segments.longest_first is None
        )


class PackedModernBertMLP(ModernBertMLP):
    """On a CPU in float32, `gated_gelu`."""

    def forward(self, hidden_states: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens dim"]:
        if not (_is_plain(hidden_states) and hidden_states.dtype == self.Wi.weight.dtype and torch.is_grad_enabled()):
            return super().forward(hidden_states)
        return self.Wo(self.drop(gated_gelu(self.Wi(hidden_states))))


def shorten(encoder: nn.Module) -> None:
    """Gives a ModernBERT's layers these classes. Parameters, names and what is saved stay."""
    for module in encoder.modules():
        if type(module) is ModernBertAttention:
            module.__class__ = PackedModernBertAttention
        elif type(module) is ModernBertMLP and isinstance(module.act, GELUActivation) and module.act.act is gelu:
            module.__class__ = PackedModernBertMLP


def _is_plain(states: Tensor) -> bool:
    return states.device.type == "cpu" and states.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
