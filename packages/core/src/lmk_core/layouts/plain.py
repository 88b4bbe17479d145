"""How the kinds without landmarks are laid out. Numpy only, all texts at once."""

from __future__ import annotations

import numpy as np

from lmk_core.layouts.layout import Layouts
from lmk_core.texts.ragged import ranges, row_sums, to_bounds
from lmk_core.texts.special_tokens import SpecialTokens
from lmk_core.texts.tokenized import TokenizedTexts


def plain_layouts(texts: TokenizedTexts, tokens: SpecialTokens, max_length: int, step: int | None) -> Layouts:
    """CLS text SEP, each text cut so that all fits ``max_length``.

    Args:
        texts: the texts' plain ids.
        tokens: the ids of CLS and SEP.
        max_length: in tokens, special tokens included.
        step: every ``step``-th position is pooled, from position 0 on; None for position 0 alone.
    """
    head = 0 if tokens.first is None else 1
    kept = np.minimum(texts.lengths, max_length - head - 1)
    lengths = kept + head + 1
    bounds = to_bounds(lengths)
    ids = np.full(bounds[-1], tokens.landmark, dtype=np.int32)
    ids[ranges(bounds[:-1] + head, kept)] = texts.ids[ranges(texts.bounds[:-1], kept)]
    if tokens.first is not None:
        ids[bounds[:-1]] = tokens.first
    counts = np.ones_like(lengths) if step is None else -(-lengths // step)
    pooled = ranges(np.zeros_like(counts), counts) * (step or 1)
    return Layouts(ids, bounds, pooled.astype(np.int32), to_bounds(counts))


def multi_cls_layouts(texts: TokenizedTexts, tokens: SpecialTokens, max_length: int, every: int) -> Layouts:
    """(CLS chunk)* SEP, cut to ``max_length - 1`` before the SEP; every CLS is pooled.

    Raises:
        ValueError: if there is no CLS.
    """
    first = first_token(tokens)
    kept = np.minimum(texts.lengths, max_length)
    counts = np.maximum(-(-kept // every), 1)
    chunk_bounds = to_bounds(counts)
    positions = ranges(np.zeros_like(counts), counts) * (every + 1)
    lengths = np.minimum(kept + counts, max_length - 1)
    inside = positions < np.repeat(lengths, counts)
    counts = row_sums(inside, chunk_bounds)
    positions = positions[inside]
    bounds = to_bounds(lengths + 1)
    ids = np.full(bounds[-1], first, dtype=np.int32)
    ids[bounds[1:] - 1] = tokens.landmark
    is_text = np.ones(len(ids), dtype=bool)
    is_text[bounds[1:] - 1] = False
    is_text[positions + np.repeat(bounds[:-1], counts)] = False
    ids[is_text] = texts.ids[ranges(texts.bounds[:-1], lengths - counts)]
    return Layouts(ids, bounds, positions.astype(np.int32), to_bounds(counts))


def first_token(tokens: SpecialTokens) -> int:
    """The id of CLS, which multi_cls cannot do without.

    Raises:
        ValueError: if there is none.
    """
    if tokens.first is None:
        raise ValueError("the pooling kind 'multi_cls' needs a tokenizer with a CLS or BOS token; this one has neither")
    return tokens.first
