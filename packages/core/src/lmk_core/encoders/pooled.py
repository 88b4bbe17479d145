"""`PooledEncoder`: an encoder and a reduction, from ids and masks to unit vectors."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from lmk_core.encoders.packed.segments import Segments
from lmk_core.encoders.packed.support import packing_obstacle, run_packed
from lmk_core.pooling import PoolingConfig
from lmk_core.reductions import build_reduction


class PooledEncoder(nn.Module):
    """An encoder of transformers with the reduction of a pooling strategy.

    Args:
        encoder: gives ``last_hidden_state`` for ``input_ids`` and ``attention_mask``.
        pooling: the strategy; the pooling masks must come from a `PoolingTokenizer` of the same one.
        reduction: instead of a new one.
    """

    def __init__(self, encoder: nn.Module, pooling: PoolingConfig, reduction: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.reduction = build_reduction(pooling, self.dim) if reduction is None else reduction

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        config: Any = self.encoder.config
        return int(config.hidden_size)

    @property
    def can_pack(self) -> bool:
        """Whether `forward_packed` keeps texts apart with this encoder (else it raises an error)."""
        return packing_obstacle(self.encoder) is None

    def hidden_states(
        self, input_ids: Int[Tensor, "batch tokens"], attention_mask: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens dim"]:
        """The encoder's last hidden states."""
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    def forward(
        self,
        input_ids: Int[Tensor, "batch tokens"],
        attention_mask: Int[Tensor, "batch tokens"],
        pooling_mask: Bool[Tensor, "batch tokens"],
    ) -> Float[Tensor, "batch dim"]:
        """Embed a batch: float32, each row of length 1."""
        reduced = self.reduction(self.hidden_states(input_ids, attention_mask), pooling_mask)
        return functional.normalize(reduced.float(), dim=-1)

    def hidden_states_packed(
        self, input_ids: Int[Tensor, " tokens"], cu_seqlens: Int[Tensor, " bounds"], max_seqlen: int
    ) -> Float[Tensor, "tokens dim"]:
        """The encoder's last hidden states of texts one behind the other, each seeing itself only.

        Raises:
            PackedAttentionError: if the encoder would look across texts.
        """
        return run_packed(self.encoder, input_ids, Segments(cu_seqlens, max_seqlen))

    def forward_packed(
        self,
        input_ids: Int[Tensor, " tokens"],
        cu_seqlens: Int[Tensor, " bounds"],
        max_seqlen: int,
        pooled: Int[Tensor, " pooled"],
        pooled_texts: Int[Tensor, " pooled"],
    ) -> Float[Tensor, "texts dim"]:
        """Embed a batch without padding: float32, each row of length 1, equal to `forward`'s.

        Args:
            input_ids: the tokens of all texts, one text behind the other.
            cu_seqlens: where texts begin and end: cumulative lengths, from 0, one more than texts.
            max_seqlen: the length of the longest text.
            pooled: flat positions in ``input_ids`` that are pooled.
            pooled_texts: the text that each of them belongs to.

        Raises:
            PackedAttentionError: if the encoder would look across texts (see `can_pack`).
        """
        hidden = self.hidden_states_packed(input_ids, cu_seqlens, max_seqlen)
        reduction: Any = self.reduction
        reduced = reduction.packed(hidden.index_select(0, pooled), pooled_texts, len(cu_seqlens) - 1)
        return functional.normalize(reduced.float(), dim=-1)
