"""Masked texts: what the encoder reads of them, what it has to guess, and what the decoder sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from lmk_core.layouts import Layouts, pack_layouts
from lmk_core.layouts.layout import Layout
from lmk_train.retromae.attention import Sight
from lmk_train.retromae.masks import hide_patterns, hide_words, replace_masked


@dataclass(frozen=True)
class Masking:
    """How much of a text is hidden, and what takes its place."""

    encoder: float
    """Share of the text's tokens that the encoder does not see."""
    decoder: float
    """Share that a position of the decoder does not see."""
    mask_id: int
    ordinary: NDArray[np.int32]
    """The vocabulary without its special tokens."""

    @classmethod
    def of_tokenizer(cls, tokenizer: Any, *, encoder: float, decoder: float) -> Masking:
        """With the ids of a tokenizer of transformers.

        Raises:
            ValueError: if it has no MASK.
        """
        if tokenizer.mask_token_id is None:
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise ValueError(
                f"the tokenizer {name!r} has no MASK token, which pre-training puts in the place of words; "
                "set tokenizer.mask_token (or pass mask_token= when loading it)"
            )
        ordinary = np.setdiff1d(np.arange(len(tokenizer), dtype=np.int32), np.array(tokenizer.all_special_ids))
        return cls(encoder, decoder, tokenizer.mask_token_id, ordinary.astype(np.int32))


@dataclass(frozen=True, eq=False)
class MaskedText:
    """One text, laid out and masked. What is special in it (CLS, SEP, landmarks) is never hidden, masked or guessed."""

    layout: Layout
    is_text: NDArray[np.bool_]
    """[tokens] which positions are the text's own tokens."""
    read: NDArray[np.int32]
    """[tokens] the ids that the encoder reads."""
    masked: NDArray[np.bool_]
    """[tokens] which of them it has to guess."""
    hidden: NDArray[np.bool_]
    """[patterns, tokens] what each pattern hides from the decoder."""
    patterns: NDArray[np.int64]
    """[tokens] the pattern that each position of the decoder has."""

    @classmethod
    def make(
        cls,
        layout: Layout,
        begins: NDArray[np.bool_],
        masking: Masking,
        *,
        landmarks: bool,
        draw: np.random.RandomState,
    ) -> MaskedText:
        """Masks a text that was laid out.

        Args:
            layout: of the text, with CLS in front.
            begins: which of the text's tokens begin a word, from its first token on; more than were kept is fine.
            masking: how much is hidden.
            landmarks: whether what is pooled are landmarks; else the layout is CLS text SEP.
            draw: decides what is hidden.
        """
        is_text = np.ones(len(layout), dtype=bool)
        is_text[[0, *layout.pooled] if landmarks else [0, -1]] = False
        begins = begins[: int(is_text.sum())]
        ids = np.array(layout.input_ids, dtype=np.int32)
        masked = np.zeros(len(layout), dtype=bool)
        masked[is_text] = hide_words(begins, masking.encoder, draw)
        read = replace_masked(ids, masked, draw, mask_id=masking.mask_id, ordinary=masking.ordinary)
        of_text, of_tokens = hide_patterns(begins, masking.decoder, draw)
        hidden = np.zeros((len(of_text), len(layout)), dtype=bool)
        hidden[:, is_text] = of_text
        patterns = np.zeros(len(layout), dtype=np.int64)
        patterns[is_text] = of_tokens
        return cls(layout, is_text, read, masked, hidden, patterns)


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Some masked texts, one behind the other."""

    ids: Int[Tensor, " tokens"]
    """The texts' own."""
    read: Int[Tensor, " tokens"]
    """What the encoder reads."""
    cu_seqlens: Int[Tensor, " texts_and_one"]
    max_seqlen: int
    pooled: Int[Tensor, " pooled"]
    pooled_texts: Int[Tensor, " pooled"]
    masked: Int[Tensor, " masked"]
    """The positions that the encoder has to guess."""
    guessed: Int[Tensor, " guessed"]
    """The positions that the decoder has to: all of the texts' own."""
    texts: Int[Tensor, " tokens"]
    """The text of each position."""
    positions: Int[Tensor, " tokens"]
    """Each position's place in its text."""
    bounds: tuple[int, ...]
    hidden: Bool[Tensor, "patterns tokens"]
    patterns: Int[Tensor, " tokens"]

    @property
    def sight(self) -> Sight:
        """What the decoder sees."""
        return Sight(self.bounds, self.hidden, self.patterns)

    def to(self, device: torch.device | str) -> MaskedBatch:
        """The batch with its tensors there."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved = {key: value.to(device, non_blocking=True) for key, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **moved)


def pack_masked(texts: Sequence[MaskedText]) -> MaskedBatch:
    """Texts one behind the other, without padding.

    Raises:
        ValueError: if there is none.
    """
    packed = pack_layouts(Layouts.from_list([text.layout for text in texts]))
    bounds = packed["cu_seqlens"].long()
    lengths = bounds.diff()
    owners = torch.repeat_interleave(torch.arange(len(texts)), lengths)
    hidden = torch.zeros(max(len(text.hidden) for text in texts), int(bounds[-1]), dtype=torch.bool)
    for start, text in zip(bounds.tolist(), texts, strict=False):
        hidden[: len(text.hidden), start : start + len(text.layout)] = torch.from_numpy(text.hidden)
    return MaskedBatch(
        ids=packed["input_ids"],
        read=torch.from_numpy(np.concatenate([text.read for text in texts]).astype(np.int64)),
        cu_seqlens=packed["cu_seqlens"],
        max_seqlen=packed["max_seqlen"],
        pooled=packed["pooled"],
        pooled_texts=packed["pooled_texts"],
        masked=torch.from_numpy(np.flatnonzero(np.concatenate([text.masked for text in texts]))),
        guessed=torch.from_numpy(np.flatnonzero(np.concatenate([text.is_text for text in texts]))),
        texts=owners,
        positions=torch.arange(int(bounds[-1])) - bounds[owners],
        bounds=tuple(bounds.tolist()),
        hidden=hidden,
        patterns=torch.from_numpy(np.concatenate([text.patterns for text in texts])),
    )
