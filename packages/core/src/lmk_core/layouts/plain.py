"""How the kinds without landmarks are laid out. Numpy only, all texts at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmk_core.layouts.layout import Layouts
from lmk_core.texts.chunks import Chunks
from lmk_core.texts.ragged import Ints, ranges, row_sums, to_bounds
from lmk_core.texts.special_tokens import SpecialTokens
from lmk_core.texts.tokenized import TokenizedTexts


def plain_layouts(texts: TokenizedTexts, tokens: SpecialTokens, max_length: int, step: int | None) -> Layouts:
    """CLS text SEP, or CLS text SEP text SEP for a pair, each cut so that all fits ``max_length``.

    A pair is cut at the end of the longer text, as transformers does by default. The SEP between its two texts (two of
    them where the tokenizer has it so) is not pooled; nor is what stands before the text when its prompt isn't.

    Args:
        texts: the texts' plain ids.
        tokens: the ids of CLS and SEP.
        max_length: in tokens, special tokens included.
        step: every ``step``-th position is pooled, from position 0 on; None for position 0 alone.
    """
    head = 0 if tokens.first is None else 1
    firsts, seconds, between = _kept(texts, tokens.between, max_length - head - 1)
    lengths = head + firsts + between + seconds + 1
    bounds = to_bounds(lengths)
    ids = np.full(bounds[-1], tokens.landmark, dtype=np.int32)
    if tokens.first is not None:
        ids[bounds[:-1]] = tokens.first
    first_starts = bounds[:-1] + head
    ids[ranges(first_starts, firsts)] = texts.ids[ranges(texts.bounds[:-1], firsts)]
    separators = None
    if texts.seconds is not None:
        begin = texts.bounds[:-1] + np.maximum(texts.seconds, 0)
        ids[ranges(first_starts + firsts + between, seconds)] = texts.ids[ranges(begin, seconds)]
        separators = np.zeros(len(ids), dtype=bool)
        separators[ranges(first_starts + firsts, between)] = True
    if step is None:
        return Layouts(ids, bounds, _first_position(texts, lengths, head, max_length), np.arange(len(texts) + 1))
    counts = -(-lengths // step)
    pooled = ranges(np.zeros_like(counts), counts) * step
    if separators is not None:
        kept = ~separators[pooled + np.repeat(bounds[:-1], counts)]
        pooled, counts = pooled[kept], row_sums(kept, to_bounds(counts))
    laid_out = Layouts(ids, bounds, pooled.astype(np.int32), to_bounds(counts))
    return laid_out if texts.unpooled is None else laid_out.pooled_from(_text_starts(texts, head, max_length))


def multi_cls_layouts(texts: TokenizedTexts, chunks: Chunks, tokens: SpecialTokens, max_length: int) -> Layouts:
    """(CLS chunk)* SEP, cut to ``max_length - 1`` before the SEP; every CLS is pooled.

    Raises:
        ValueError: if there is no CLS.
    """
    first = first_token(tokens)
    all_counts = np.diff(chunks.bounds)
    positions = chunks.starts() + ranges(np.zeros_like(all_counts), all_counts)
    lengths = np.minimum(texts.lengths + all_counts, max_length - 1)
    inside = positions < np.repeat(lengths, all_counts)
    counts, positions = row_sums(inside, chunks.bounds), positions[inside]
    bounds = to_bounds(lengths + 1)
    ids = np.full(bounds[-1], first, dtype=np.int32)
    ids[bounds[1:] - 1] = tokens.landmark
    is_text = np.ones(len(ids), dtype=bool)
    is_text[bounds[1:] - 1] = False
    is_text[positions + np.repeat(bounds[:-1], counts)] = False
    ids[is_text] = texts.ids[ranges(texts.bounds[:-1], lengths - counts)]
    laid_out = Layouts(ids, bounds, positions.astype(np.int32), to_bounds(counts))
    if texts.unpooled is None:
        return laid_out
    before = row_sums(chunks.starts() < np.repeat(texts.unpooled, all_counts), chunks.bounds)
    return laid_out.pooled_from(texts.unpooled + before)


def first_token(tokens: SpecialTokens) -> int:
    """The id of CLS, which multi_cls cannot do without.

    Raises:
        ValueError: if there is none.
    """
    if tokens.first is None:
        raise ValueError("the pooling kind 'multi_cls' needs a tokenizer with a CLS or BOS token; this one has neither")
    return tokens.first


def _kept(texts: TokenizedTexts, separators: int, room: int) -> tuple[Ints, Ints, Ints]:
    """[texts] tokens of each text that are left, of its pair's second, and the SEP between the two."""
    if texts.seconds is None:
        none = np.zeros(len(texts), dtype=np.int64)
        return np.minimum(texts.lengths, room), none, none
    is_pair = texts.seconds >= 0
    between = np.where(is_pair, min(separators, max(room, 0)), 0)
    room_left = room - between
    firsts = np.where(is_pair, texts.seconds, texts.lengths)
    seconds = texts.lengths - firsts
    # The shorter one keeps half of the room if it needs it, the longer one what is left.
    short = np.minimum(np.minimum(firsts, seconds), room_left // 2)
    long = np.minimum(np.maximum(firsts, seconds), room_left - short)
    first_is_short = firsts <= seconds
    both = np.where(first_is_short, short, long), np.where(first_is_short, long, short)
    return np.where(is_pair, both[0], np.minimum(firsts, room)), np.where(is_pair, both[1], 0), between


def _text_starts(texts: TokenizedTexts, head: int, max_length: int) -> Ints:
    """[texts] the position of the first token behind the prompt (the last SEP at most); 0 where there is no prompt."""
    assert texts.unpooled is not None
    return np.where(texts.unpooled > 0, np.minimum(texts.unpooled + head, max_length - 1), 0)


def _first_position(texts: TokenizedTexts, lengths: Ints, head: int, max_length: int) -> NDArray[np.int32]:
    """[texts] position 0, or the first one behind a prompt that is not pooled, as Sentence Transformers has it."""
    if texts.unpooled is None:
        return np.zeros(len(texts), dtype=np.int32)
    starts = _text_starts(texts, head, max_length)
    return np.where(starts < lengths, starts, 0).astype(np.int32)
