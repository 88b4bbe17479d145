"""Where the words of tokenized texts begin, as the tokenizer's own ``word_ids()`` say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_core.texts.ragged import Ints
from lmk_core.texts.tokenizing import SURROGATE, plain_settings

_SPACE = "\u2581"
"""Begins a piece that begins a word, in vocabularies of SentencePiece."""


def tokenize_words(
    tokenizer: Any, texts: Sequence[str], limit: int | None
) -> tuple[NDArray[np.int32], Ints, NDArray[np.bool_]]:
    """Each text's ids, its first ``limit`` ones at most, and which of them begin a word. The ids are `tokenize_texts`'.

    A word is what the tokenizer cuts a text into before its model does: so it is told for pieces of WordPiece, of BPE
    over bytes and of SentencePiece alike. Gemma's tokenizer cuts nothing before its model: there a piece that stands
    behind a space begins a word too.

    Returns:
        ids [all tokens], lengths [texts], and which ids begin a word [all tokens].

    Raises:
        ValueError: for a tokenizer that is written in Python: it knows no words.
    """
    if not getattr(tokenizer, "is_fast", False):
        name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        raise ValueError(
            f"the tokenizer {name!r} is written in Python and does not know the words of a text; load the model's fast "
            "tokenizer (tokenizer.json)"
        )
    clean = [SURROGATE.sub("\ufffd", text) for text in texts]
    with plain_settings(tokenizer.backend_tokenizer) as backend:
        encodings = backend.encode_batch(clean, add_special_tokens=False)
    ids: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    begins: list[NDArray[np.bool_]] = [np.zeros(0, dtype=bool)]
    for encoding in encodings:
        ids.append(np.array(encoding.ids[:limit], dtype=np.int32))
        begins.append(_begins(encoding, limit))
    lengths = np.array([len(one) for one in ids[1:]], dtype=np.int64)
    return np.concatenate(ids), lengths, np.concatenate(begins)


def _begins(encoding: Any, limit: int | None) -> NDArray[np.bool_]:
    words = np.array([-1 if word is None else word for word in encoding.word_ids[:limit]], dtype=np.int64)
    begins = np.ones(len(words), dtype=bool)
    # An id without a word is one of its own.
    begins[1:] = (words[1:] != words[:-1]) | (words[1:] < 0)
    behind_space = [token.startswith(_SPACE) for token in encoding.tokens[:limit]]
    return begins | np.array(behind_space, dtype=bool)
