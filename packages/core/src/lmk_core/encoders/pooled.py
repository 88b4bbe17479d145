"""`PooledEncoder`: an encoder and a reduction, from ids and masks to unit vectors."""

from __future__ import annotations

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

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
