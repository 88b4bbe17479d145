"""Where the landmarks stand: CLS (chunk LMK)*. Section 4 of the paper, arXiv 2601.21525."""

from __future__ import annotations

import numpy as np

from lmk_core.layouts.layout import Ids, Layout, place
from lmk_core.layouts.special_tokens import SpecialTokens
from lmk_core.pooling.config import Overflow


def fixed_ends(num_tokens: int, granularity: int) -> Ids:
    """Where chunks of ``granularity`` tokens end, in text tokens. The last one may be partial; no text, no chunk."""
    return np.minimum(np.arange(1, -(-num_tokens // granularity) + 1, dtype=np.int64) * granularity, num_tokens)


def landmark_layout(
    ids: Ids,
    ends: Ids,
    tokens: SpecialTokens,
    max_length: int,
    overflow: Overflow,
    offsets: Ids | None = None,
) -> Layout:
    """Insert a landmark after each chunk and keep at most ``max_length`` (at least 2) ids.

    Args:
        ids: [n] the text's tokens.
        ends: [chunks] where each chunk ends in ``ids``, strictly ascending, the last is n. Empty only when n is 0.
        tokens: the ids of CLS and LMK.
        max_length: in tokens, special tokens and landmarks included.
        overflow: what to do when all does not fit. "cut" inserts, then cuts; if no landmark is left the last id
            becomes one. "budget" cuts the text first, so that the last token is a landmark.
        offsets: [n, 2] the characters of each text token; asks for the spans.
    """
    head = 0 if tokens.first is None else 1
    room = max_length - head
    kept = _budget(ends, room) if overflow == "budget" else room
    # More text tokens than `room` cannot survive the cut, nor can a landmark after them.
    ids = ids[:kept]
    ends = np.unique(np.minimum(ends, len(ids))) if len(ids) else np.zeros(1, dtype=np.int64)
    positions = ends + np.arange(len(ends))
    body = place(ids, positions, tokens.landmark)[:room]
    positions = positions[positions < room]
    if not len(positions):
        body[-1] = tokens.landmark
        positions = np.array([len(body) - 1])
        ends = positions
    out = body if tokens.first is None else np.concatenate([[tokens.first], body])
    spans = None if offsets is None else _spans(ends[: len(positions)], offsets)
    return Layout(out.tolist(), (positions + head).tolist(), spans)


def _budget(ends: Ids, room: int) -> int:
    """The most text tokens such that they and their landmarks, the last one included, fit ``room``."""
    lengths = ends + np.arange(1, len(ends) + 1)
    whole = int(np.searchsorted(lengths, room, side="right"))
    if whole == len(ends):
        return room
    done, used = (int(ends[whole - 1]), int(lengths[whole - 1])) if whole else (0, 0)
    return done + max(room - used - 1, 0)


def _spans(ends: Ids, offsets: Ids) -> list[tuple[int, int]]:
    """[chunks] token ends -> the characters of each chunk."""
    spans, start = [], 0
    for end in ends.tolist():
        chunk = offsets[start:end]
        spans.append((int(chunk[0, 0]), int(chunk[-1, 1])) if len(chunk) else (0, 0))
        start = end
    return spans
