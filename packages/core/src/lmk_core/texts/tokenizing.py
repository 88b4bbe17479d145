"""The one call of the tokenizer: many texts to plain ids, with nothing inserted, cut, or padded by it."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_core.texts.ragged import Ints

SURROGATE = re.compile("[\ud800-\udfff]")

Tokens = tuple[NDArray[np.int32], Ints, NDArray[np.int32] | None]
"""ids [all tokens], lengths [texts], and the tokens' characters [all tokens, 2] when asked for."""


def tokenize_texts(tokenizer: Any, texts: Sequence[str], limit: int | None, with_offsets: bool = False) -> Tokens:
    """Each text's ids, without special tokens, its first ``limit`` ones at most.

    The characters of a special token are ordinary text. The tokenizer's own settings are as before afterwards.

    Raises:
        ValueError: for the characters of the tokens of a tokenizer that is written in Python.
    """
    if not texts:
        return _joined([], [] if with_offsets else None)
    try:
        return _encode(tokenizer, texts, limit, with_offsets)
    except (TypeError, UnicodeEncodeError):
        # Half of a surrogate pair, which broken JSON leaves behind, is no text for the tokenizer.
        return _encode(tokenizer, [SURROGATE.sub("\ufffd", text) for text in texts], limit, with_offsets)


def _encode(tokenizer: Any, texts: Sequence[str], limit: int | None, with_offsets: bool) -> Tokens:
    if not getattr(tokenizer, "is_fast", False):
        return _encode_slowly(tokenizer, texts, limit, with_offsets)
    with plain_settings(tokenizer.backend_tokenizer) as backend:
        # The fast one leaves the characters out, a quarter of the time.
        encode = backend.encode_batch if with_offsets else backend.encode_batch_fast
        encodings = encode(list(texts), add_special_tokens=False)
    ids = [encoding.ids[:limit] for encoding in encodings]
    return _joined(ids, [encoding.offsets[:limit] for encoding in encodings] if with_offsets else None)


class _Settings:
    """One thread at a time: another one would set a tokenizer back while this one still encodes with it."""

    lock = Lock()

    @classmethod
    def renew(cls) -> None:
        """A process that is forked while a thread holds the lock would wait for it for ever."""
        cls.lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Settings.renew)


@contextmanager
def plain_settings(backend: Any) -> Generator[Any]:
    """No truncation, no padding, no special tokens found in texts; what was set before is set again afterwards."""
    with _Settings.lock:
        truncation, padding, split = backend.truncation, backend.padding, backend.encode_special_tokens
        if truncation is not None:
            backend.no_truncation()
        if padding is not None:
            backend.no_padding()
        if not split:
            backend.encode_special_tokens = True
        try:
            yield backend
        finally:
            if truncation is not None:
                backend.enable_truncation(**truncation)
            if padding is not None:
                backend.enable_padding(**padding)
            if not split:
                backend.encode_special_tokens = False


def _encode_slowly(tokenizer: Any, texts: Sequence[str], limit: int | None, with_offsets: bool) -> Tokens:
    """A tokenizer that is written in Python. What it makes of a special token's characters is its own affair."""
    if with_offsets:
        name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        raise ValueError(
            f"spans: the tokenizer {name!r} is written in Python and does not know the characters of its tokens; "
            "load the model's fast tokenizer, or do without spans"
        )
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        split_special_tokens=True,
        padding=False,
        truncation=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    return _joined([ids[:limit] for ids in encoded["input_ids"]], None)


def _joined(ids: list[list[int]], offsets: list[list[tuple[int, int]]] | None) -> Tokens:
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    total = int(lengths.sum())
    flat = np.fromiter(chain.from_iterable(ids), dtype=np.int32, count=total)
    if offsets is None:
        return flat, lengths, None
    numbers = chain.from_iterable(chain.from_iterable(offsets))
    return flat, lengths, np.fromiter(numbers, dtype=np.int32, count=2 * total).reshape(-1, 2)
