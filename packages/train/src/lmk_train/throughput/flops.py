"""What a training step computes, counted from its texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from lmk_core.encoders import PooledEncoder
from lmk_core.layouts import Layouts
from lmk_core.reductions.latent_attention import LatentAttention

Lengths = NDArray[np.int64]


class ModelFlops:
    """The floating-point operations that training on some texts asks for, whatever is computed besides.

    They are those of model FLOPs utilization (Chowdhery et al. 2022, PaLM, appendix B, https://arxiv.org/abs/2204.02311):
    two for each weight of a matrix product and token, and ``4 x width`` for each pair of tokens of which one sees the
    other, in each layer; three times that, since the way back takes twice as many as the way there. ``6 N`` a token and
    the attention, in other words.

    - N are the weights of linear layers. Tables that are looked up compute nothing; norms and biases are left out.
    - Pairs are counted as each layer sees them: a local layer's token sees its window alone, in its own text.
    - Padding counts nothing, and nothing counts twice: neither the first pass of GradCache nor what activation
      checkpointing computes again, which "hardware FLOPs" would have.
    - The reduction counts for the positions that it pools. The loss is left out, about a thousandth: 6 for each of
      its logits and dimensions.

    Args:
        encoder: whose shapes are read.
    """

    def __init__(self, encoder: PooledEncoder) -> None:
        self.per_token = 2 * _linear_weights(encoder.encoder)
        self.per_pooled = _of_reduction(encoder.reduction)
        self.per_pair = 4 * encoder.dim
        self.half_windows = half_windows(encoder)

    def forward(self, texts: Layouts) -> int:
        """Of the way there alone."""
        lengths = np.asarray(texts.lengths, np.int64)
        pairs = sum(int(pairs_seen(lengths, half_window).sum()) for half_window in self.half_windows)
        pooled = int(texts.pooled_bounds[-1] - texts.pooled_bounds[0])
        return self.per_token * int(lengths.sum()) + self.per_pair * pairs + self.per_pooled * pooled

    def training(self, texts: Layouts) -> int:
        """Of the way there and back."""
        return 3 * self.forward(texts)


def half_windows(encoder: PooledEncoder) -> list[int | None]:
    """Of each layer the tokens that a token sees to either side, as ModernBERT says it; None for all of its text."""
    config: Any = encoder.encoder.config
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * getattr(config, "num_hidden_layers", 0)
    return [config.sliding_window if kind == "sliding_attention" else None for kind in kinds]


def pairs_seen(lengths: Lengths, half_window: int | None) -> Lengths:
    """Of each text the pairs of tokens of which the first sees the second.

    Example:
        >>> pairs_seen(np.array([2, 5]), None), pairs_seen(np.array([2, 5]), 1)
        (array([ 4, 25]), array([ 4, 13]))
    """
    if half_window is None:
        return lengths * lengths
    banded = lengths * (2 * half_window + 1) - half_window * (half_window + 1)
    return np.where(lengths <= half_window + 1, lengths * lengths, banded)


def _linear_weights(encoder: nn.Module) -> int:
    """A pooler of transformers' own is left out: nobody reads what it computes of one token."""
    return sum(
        module.weight.numel()
        for name, module in encoder.named_modules()
        if isinstance(module, nn.Linear) and "pooler" not in name
    )


def _of_reduction(reduction: nn.Module) -> int:
    """Of the way there, for a pooled position; a mean computes next to nothing."""
    if not isinstance(reduction, LatentAttention):
        return 0
    # Keys and values are of the latents, a few for all positions together.
    of_latents = reduction.key.weight.numel() + reduction.value.weight.numel()
    num_latents, dim = reduction.latents.shape
    return 2 * (_linear_weights(reduction) - of_latents) + 4 * dim * num_latents
