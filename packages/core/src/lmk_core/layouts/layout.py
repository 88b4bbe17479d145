"""One text's layout, and how the plain kinds are laid out. Numpy only, no loop over tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmk_core.layouts.special_tokens import SpecialTokens

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """One text, ready for the encoder."""

    input_ids: list[int]
    """Token ids, special tokens included, without padding."""
    pooled: list[int]
    """Positions in ``input_ids`` that are pooled, ascending. At least one."""
    spans: list[tuple[int, int]] | None = None
    """Landmarks only, and only when asked for: the characters (start, end) of the text that each landmark closes."""

    def __len__(self) -> int:
        return len(self.input_ids)


def plain_ids(ids: Ids, tokens: SpecialTokens, max_length: int) -> Ids:
    """CLS text SEP, the text cut so that all fits ``max_length``. Shapes: [n] -> [at most max_length]."""
    head = [] if tokens.first is None else [tokens.first]
    return np.concatenate([head, ids[: max_length - len(head) - 1], [tokens.landmark]]).astype(np.int64)


def multi_cls_ids(ids: Ids, tokens: SpecialTokens, max_length: int, every: int) -> tuple[Ids, Ids]:
    """(CLS chunk)* SEP, cut to ``max_length - 1`` before the SEP. Returns the ids and the positions of the CLS."""
    if tokens.first is None:
        raise ValueError("the pooling kind 'multi_cls' needs a tokenizer with a CLS or BOS token; this one has neither")
    ids = ids[:max_length]
    starts = np.arange(0, max(len(ids), 1), every)
    positions = starts + np.arange(len(starts))
    out = place(ids, positions, tokens.first)[: max_length - 1]
    return np.append(out, tokens.landmark), positions[positions < len(out)]


def place(ids: Ids, positions: Ids, token: int) -> Ids:
    """Put ``token`` at ``positions`` of the result and ``ids``, in order, everywhere else."""
    out = np.full(len(ids) + len(positions), token, dtype=np.int64)
    is_text = np.ones(len(out), dtype=bool)
    is_text[positions] = False
    out[is_text] = ids
    return out
