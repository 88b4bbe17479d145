"""Which tokens each side of RetroMAE does not see: whole words, drawn from numbers alone. Numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PATTERNS = 128
"""Sets of hidden words that are drawn for a text; each position of the decoder has one of them. RetroMAE's number."""

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def hide_words(begins: Bools, share: float, draw: np.random.RandomState) -> Bools:
    """Draws whole words that are ``share`` of a text's tokens: [tokens] -> [tokens].

    Words are taken in a drawn order. One that would be more than the share is passed over, as RetroMAE does; one that
    is longer than the whole share counts as many words of one token each, so that a text without spaces is masked too.
    There is no other limit: the share is that of a long text as well.

    Args:
        begins: which tokens begin a word.
        share: of the tokens; at least one is hidden, where there is one.
        draw: the numbers.

    Example:
        >>> begins = np.array([True, False, True, False, True, False, True, False])
        >>> hide_words(begins, 0.5, np.random.RandomState(0)).astype(int)
        array([0, 0, 1, 1, 1, 1, 0, 0])
    """
    budget = max(round(share * len(begins)), 1) if len(begins) else 0
    return _take(*_words(begins, budget), budget, len(begins), draw)


def hide_patterns(
    begins: Bools, share: float, draw: np.random.RandomState, *, patterns: int = PATTERNS
) -> tuple[Bools, Ints]:
    """As many draws of `hide_words` as there are patterns (or tokens, if these are fewer).

    Returns:
        The hidden tokens of each pattern [patterns, tokens]; and for each token the pattern that it has [tokens].
    """
    tokens = len(begins)
    count = min(max(tokens, 1), patterns)
    budget = max(round(share * tokens), 1) if tokens else 0
    starts, lengths = _words(begins, budget)
    hidden = np.stack([_take(starts, lengths, budget, tokens, draw) for _ in range(count)])
    return hidden, draw.randint(count, size=tokens)


def replace_masked(
    ids: NDArray[np.int32], chosen: Bools, draw: np.random.RandomState, *, mask_id: int, ordinary: NDArray[np.int32]
) -> NDArray[np.int32]:
    """What the encoder reads: of the chosen tokens 80% are MASK, 10% any ordinary token, 10% themselves (BERT's rule).

    Args:
        ids: the text's own [tokens].
        chosen: which of them are masked [tokens].
        draw: the numbers.
        mask_id: that of MASK.
        ordinary: the vocabulary without its special tokens.
    """
    read = ids.copy()
    places = np.flatnonzero(chosen)
    kind = draw.random_sample(len(places))
    others = ordinary[draw.randint(len(ordinary), size=len(places))]
    read[places] = np.where(kind < 0.8, mask_id, np.where(kind < 0.9, others, ids[places]))
    return read


def _words(begins: Bools, budget: int) -> tuple[Ints, Ints]:
    """Where each word begins and how many tokens it has."""
    if not len(begins):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    begins = begins.copy()
    begins[0] = True
    starts = np.flatnonzero(begins)
    too_long = np.diff(np.append(starts, len(begins))) > budget
    if too_long.any():
        begins |= np.repeat(too_long, np.diff(np.append(starts, len(begins))))
        starts = np.flatnonzero(begins)
    return starts, np.diff(np.append(starts, len(begins)))


def _take(starts: Ints, lengths: Ints, budget: int, tokens: int, draw: np.random.RandomState) -> Bools:
    """Words in a drawn order, each that still fits."""
    order = draw.permutation(len(starts))
    taken: list[Ints] = []
    left = budget
    while left and len(order):
        ends = np.cumsum(lengths[order])
        fitting = int(np.searchsorted(ends, left, side="right"))
        taken.append(order[:fitting])
        left -= int(ends[fitting - 1]) if fitting else 0
        rest = order[fitting:]
        order = rest[lengths[rest] <= left]
    chosen = np.concatenate(taken) if taken else np.zeros(0, dtype=np.int64)
    steps = np.zeros(tokens + 1, dtype=np.int64)
    np.add.at(steps, starts[chosen], 1)
    np.add.at(steps, starts[chosen] + lengths[chosen], -1)
    return np.cumsum(steps[:-1]).astype(bool)
