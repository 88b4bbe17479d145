"""The rows of one layer's attention that belong to the pooled positions, and no others.

The encoder runs one text as it always does (packed, so that no mask of the whole text is made). What its attention is
called with (queries and keys, after the rotary embedding; the window, where the layer is local) is seen on the way, and
the rows are made from it block by block: memory grows with the length of the text, never with its square.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from lmk_core import Embedder, Layout
from lmk_core.embedder.batches import evaluating
from lmk_core.encoders.packed.segments import Segments
from lmk_core.encoders.packed.support import packing_obstacle, run_packed
from lmk_eval.analyses.errors import AnalysisError

_BLOCK_NUMBERS = 4_000_000
"""Numbers in a block of rows: 16 MB."""
_See = Callable[[Float[Tensor, "tokens heads width"], Float[Tensor, "tokens heads width"], int | None, float], None]


class MeanAttention(NamedTuple):
    """The attention of a text's pooled positions, the mean over them and over heads."""

    shares: Float64[np.ndarray, " tokens"]
    """Of each position, special tokens included; they sum to 1."""
    window: int | None
    """Tokens that the layer sees on either side; None where it sees all."""


class _Watched(Segments):
    """One text, whose queries and keys in one layer are shown to ``see`` on their way."""

    def __init__(self, tokens: int, device: torch.device, layer: int, see: _See) -> None:
        super().__init__(torch.tensor([0, tokens], device=device), tokens)
        self._layer = layer
        self._see = see
        self._same = torch.arange(tokens, device=device)

    @cached_property
    def longest_first(self) -> tuple[Segments, Int[Tensor, " tokens"], Int[Tensor, " tokens"]] | None:
        """The order as it is, but said: so no layer may take a shorter way than `attend`, which would not be seen."""
        return self, self._same, self._same

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
        """As of any text; ``layers`` counts the layer that is at work already."""
        if self.layers - 1 == self._layer:
            self._see(query, key, half_window, query.shape[-1] ** -0.5 if scale is None else scale)
        return super().attend(query, key, value, half_window=half_window, scale=scale, dropout=dropout)


def attention_rows(embedder: Embedder, layout: Layout, layer: int = -1) -> Float[Tensor, "heads pooled tokens"]:
    """The attention from each pooled position to every position, on the CPU. For short texts: all rows are kept.

    Raises:
        AnalysisError: as `mean_attention`.
    """
    blocks: list[Tensor] = []
    _watch(embedder, layout, layer, lambda block, _: blocks.append(block.cpu()))
    return torch.cat(blocks, dim=1)


def mean_attention(embedder: Embedder, layout: Layout, layer: int = -1) -> MeanAttention:
    """The attention from a text's pooled positions to every position, the mean over them and over heads.

    Args:
        embedder: of a model that takes packed batches, with float32 weights.
        layout: one text, laid out by its tokenizer.
        layer: counted from 0, or from the end as -1.

    Raises:
        AnalysisError: for another model, or a layer that it has not.
    """
    total = torch.zeros(len(layout), dtype=torch.float64)
    windows: list[int | None] = []

    def add(block: Tensor, window: int | None) -> None:
        total.add_(block.mean(dim=0).sum(dim=0).double().cpu())
        windows.append(window)

    _watch(embedder, layout, layer, add)
    return MeanAttention((total / len(layout.pooled)).numpy(), windows[0])


def check_attention(embedder: Embedder, layer: int) -> int:
    """See that the rows of this layer can be had, and count it from 0.

    Raises:
        AnalysisError: if not; the message says why.
    """
    encoder: Any = embedder.module.encoder
    obstacle = packing_obstacle(encoder)
    if obstacle is not None:
        raise AnalysisError(f"attention: {obstacle}")
    dtype = next(encoder.parameters()).dtype
    if dtype != torch.float32:
        raise AnalysisError(f"attention: needs float32 weights, not {dtype}; load the model with dtype='float32'")
    layers = int(encoder.config.num_hidden_layers)
    if not -layers <= layer < layers:
        raise AnalysisError(f"layer: {layer}; valid: {-layers} to {layers - 1}, the model has {layers} layers")
    return layer % layers


def _watch(embedder: Embedder, layout: Layout, layer: int, add: Callable[[Tensor, int | None], None]) -> None:
    """Run one text; ``add`` gets its rows [heads, some pooled, tokens] block by block, and the layer's window."""
    layer = check_attention(embedder, layer)
    device = embedder.device
    pooled = torch.tensor(layout.pooled, device=device)
    seen = 0

    def see(query: Tensor, key: Tensor, half_window: int | None, scale: float) -> None:
        nonlocal seen
        tokens, heads, _ = key.shape
        for rows in pooled.split(max(_BLOCK_NUMBERS // (heads * tokens), 1)):
            add(_rows(query, key, rows, half_window, scale), half_window)
            seen += len(rows)

    segments = _Watched(len(layout), device, layer, see)
    with evaluating(embedder.module), torch.inference_mode():
        run_packed(embedder.module.encoder, torch.tensor(layout.input_ids, device=device), segments)
    if seen != len(pooled):
        raise AnalysisError(
            f"attention: {seen} of {len(pooled)} rows were seen; on this device the model's attention runs in a kernel "
            "that shows none"
        )


def _rows(
    query: Float[Tensor, "tokens heads width"],
    key: Float[Tensor, "tokens heads width"],
    rows: Int[Tensor, " rows"],
    half_window: int | None,
    scale: float,
) -> Float[Tensor, "heads rows tokens"]:
    scores = torch.einsum("rhd,thd->hrt", query.index_select(0, rows), key) * scale
    if half_window is not None:
        distance = torch.arange(len(key), device=key.device)[None] - rows[:, None]
        scores.masked_fill_(distance.abs() > half_window, -torch.inf)
    return scores.softmax(dim=-1)
