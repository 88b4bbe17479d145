"""Where the landmarks stand: CLS (chunk LMK)*. Section 4 of the paper, arXiv 2601.21525. All texts at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmk_core.layouts.layout import Layouts
from lmk_core.pooling.config import Overflow
from lmk_core.texts.chunks import Chunks
from lmk_core.texts.ragged import Ints, ranges, row_sums, to_bounds
from lmk_core.texts.special_tokens import SpecialTokens
from lmk_core.texts.tokenized import TokenizedTexts


def landmark_layouts(
    texts: TokenizedTexts, chunks: Chunks, tokens: SpecialTokens, max_length: int, overflow: Overflow
) -> Layouts:
    """Insert a landmark after each chunk and keep at most ``max_length`` (at least 2) ids of each text.

    Args:
        texts: the texts' plain ids; their characters, where they are known, become the landmarks' spans.
        chunks: where the chunks end, the last one of each text at the text's end.
        tokens: the ids of CLS and LMK.
        max_length: in tokens, special tokens and landmarks included.
        overflow: what to do when all does not fit. "cut" inserts, then cuts; if no landmark is left the last id
            becomes one. "budget" cuts the text first, so that the last token is a landmark.
    """
    head = 0 if tokens.first is None else 1
    kept, counts = _kept(texts.lengths, chunks, max_length - head, overflow)
    number = ranges(np.zeros_like(counts), counts)
    # The last chunk that has a landmark may be cut; then its landmark closes what is left of it.
    ends = np.minimum(chunks.ends[ranges(chunks.bounds[:-1], counts)], np.repeat(kept, counts))
    pooled = ends + number + head
    bounds = to_bounds(kept + counts + head)
    ids = np.full(bounds[-1], tokens.landmark, dtype=np.int32)
    is_text = np.ones(len(ids), dtype=bool)
    is_text[pooled + np.repeat(bounds[:-1], counts)] = False
    if tokens.first is not None:
        ids[bounds[:-1]] = tokens.first
        is_text[bounds[:-1]] = False
    ids[is_text] = texts.ids[ranges(texts.bounds[:-1], kept)]
    spans = None if texts.offsets is None else _spans(ends, number, np.repeat(texts.bounds[:-1], counts), texts.offsets)
    laid_out = Layouts(ids, bounds, pooled.astype(np.int32), to_bounds(counts), spans)
    if texts.unpooled is None:
        return laid_out
    # A landmark that closes nothing but a prompt is left out with it.
    before = row_sums(ends <= np.repeat(texts.unpooled, counts), to_bounds(counts))
    return laid_out.pooled_from(np.where(texts.unpooled > 0, head + texts.unpooled + before, 0))


def _kept(lengths: Ints, chunks: Chunks, room: int, overflow: Overflow) -> tuple[Ints, Ints]:
    """How many text tokens and how many landmarks of each text are left in ``room``: [texts], [texts]."""
    all_counts = np.diff(chunks.bounds)
    used = chunks.ends + ranges(np.ones_like(all_counts), all_counts)
    whole = row_sums(used <= room, chunks.bounds)
    if overflow == "cut":
        counts = np.maximum(whole, 1)
        return np.minimum(lengths + all_counts, room) - counts, counts
    last = chunks.bounds[:-1] + np.maximum(whole, 1) - 1
    text_done = np.where(whole > 0, chunks.ends[last], 0)
    # What is left behind the last whole chunk, without the place of one more landmark.
    extra = np.where(whole < all_counts, np.maximum(room - text_done - whole - 1, 0), 0)
    return text_done + extra, np.maximum(whole + (extra > 0), 1)


def _spans(ends: Ints, number: Ints, text_starts: Ints, offsets: NDArray[np.int32]) -> NDArray[np.int32]:
    """The characters of each chunk: [landmarks] -> [landmarks, 2]. An empty chunk's are (0, 0)."""
    starts = np.where(number > 0, np.concatenate([[0], ends[:-1]]), 0)
    spans = np.zeros((len(ends), 2), dtype=np.int32)
    filled = ends > starts
    spans[filled, 0] = offsets[(text_starts + starts)[filled], 0]
    spans[filled, 1] = offsets[(text_starts + ends - 1)[filled], 1]
    return spans
