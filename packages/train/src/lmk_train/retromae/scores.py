"""The loss of tokens that are guessed from hidden states, without all scores of the vocabulary at once."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SCORES_AT_ONCE = 2**25
"""Scores that are there at once: 128 MB in float32, and a few copies."""


def token_loss(
    head: nn.Module,
    hidden: Float[Tensor, "tokens dim"],
    wanted: Int[Tensor, " tokens"],
    *,
    vocabulary: int,
    at_once: int = SCORES_AT_ONCE,
) -> Float[Tensor, ""]:
    """The sum of the cross-entropies of all tokens, in float32.

    Some tokens at a time go through the head, and again on the way back: of 8,192 tokens and 256,000 words of the
    vocabulary, the scores alone would be 8 GB.

    Args:
        head: from hidden states to scores.
        hidden: of the tokens that are guessed.
        wanted: their ids.
        vocabulary: how many scores a token has.
        at_once: how many scores are there at once, at most (of one token at least).
    """
    total = hidden.new_zeros((), dtype=torch.float32)
    size = max(at_once // vocabulary, 1)
    for states, ids in zip(hidden.split(size), wanted.split(size), strict=True):
        part: Any = checkpoint(_loss, head, states, ids, use_reentrant=False, preserve_rng_state=False)
        total = total + part
    return total


def _loss(head: nn.Module, hidden: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(head(hidden).float(), wanted, reduction="sum")
