"""Texts are tokenized once, however many readings need them: their tokens lie in files named by what was tokenized."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import uuid
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmk_core.layouts import PoolingTokenizer, TokenizedTexts
from lmk_core.layouts.sentences import SentenceSplitter, splitter_to_text
from lmk_eval.corpus.shards import shard_bounds
from lmk_eval.corpus.storage import map_array, write_array

_OPTIONAL = ("pieces", "piece_bounds")
_CHARACTERS = 4_000_000
"""Tokenized in one call."""
_VOCABULARIES: dict[int, tuple[Any, str]] = {}
_OWN_SPLITTERS: dict[int, tuple[SentenceSplitter, str]] = {}
"""Functions and their names, by their ids; they are held, so that no other function gets the id of one that is gone."""


class TokenCache:
    """Tokens of texts below a folder; without a folder, nothing is kept.

    The key is made of the texts themselves, the tokenizer and how it was asked, so that an entry can't be stale, and
    corpora that several tasks share are tokenized once as well.

    Attributes:
        tokenized: how many texts this process has tokenized.
        found: how many it found tokenized already.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.tokenized = 0
        self.found = 0

    def tokens(self, tokenizer: PoolingTokenizer, texts: Sequence[str], max_length: int) -> TokenizedTexts:
        """The tokens of the texts, without special tokens, at most ``max_length`` of each."""
        if self.folder is None:
            self.tokenized += len(texts)
            return _tokenize(tokenizer, texts, max_length)
        place = self.folder / _key(tokenizer, texts, max_length)
        known = _read(place)
        if known is not None:
            self.found += len(texts)
            return known
        self.tokenized += len(texts)
        fresh = _tokenize(tokenizer, texts, max_length)
        _write(place, fresh)
        return fresh

    def remove(self) -> None:
        """Remove what was kept."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _tokenize(tokenizer: PoolingTokenizer, texts: Sequence[str], max_length: int) -> TokenizedTexts:
    """All texts, some at a time: what a tokenizer says of a text is many times larger than its ids."""
    bounds = shard_bounds(np.array([len(text) for text in texts], dtype=np.int64), len(texts) or 1, _CHARACTERS)
    windows = itertools.pairwise(bounds)
    parts = [tokenizer.tokenize(texts[start:end], max_length=max_length) for start, end in windows]
    if not parts:
        return tokenizer.tokenize([], max_length=max_length)
    return parts[0] if len(parts) == 1 else TokenizedTexts.concatenate(parts)


def _key(tokenizer: PoolingTokenizer, texts: Sequence[str], max_length: int) -> str:
    """A digest of the texts and of everything that decides their tokens."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((_vocabulary(tokenizer.hf_tokenizer), max_length, _splitter(tokenizer))).encode())
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def _splitter(tokenizer: PoolingTokenizer) -> str:
    """Names how texts are cut into sentences; empty where they aren't.

    Somebody's own function can't be told from another process's: its name is new in each process, where readings that
    hold the same function still share their tokens.
    """
    if tokenizer.pooling.granularity != "sentence":
        return ""
    splitter = tokenizer.sentence_splitter
    assert splitter is not None
    named = splitter_to_text(splitter)
    if named != "custom":
        return named
    return _OWN_SPLITTERS.setdefault(id(splitter), (splitter, uuid.uuid4().hex))[1]


def _vocabulary(hf_tokenizer: Any) -> str:
    """Names a tokenizer: a digest of the whole of it, worked out once."""
    known = _VOCABULARIES.get(id(hf_tokenizer))
    if known is None or known[0]() is not hf_tokenizer:
        backend = getattr(hf_tokenizer, "backend_tokenizer", None)
        whole = (
            backend.to_str()
            if backend is not None
            else repr((type(hf_tokenizer), sorted(hf_tokenizer.get_vocab().items())))
        )
        known = weakref.ref(hf_tokenizer), hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
        _VOCABULARIES[id(hf_tokenizer)] = known
    return known[1]


def _write(place: Path, tokens: TokenizedTexts) -> None:
    """Each part in a file of its own; `bounds` comes last, and says that all are there."""
    for name in _OPTIONAL:
        if (array := getattr(tokens, name)) is not None:
            write_array(place / f"{name}.npy", array)
    write_array(place / "ids.npy", tokens.ids)
    write_array(place / "bounds.npy", np.append(tokens.bounds, -1 if tokens.limit is None else tokens.limit))


def _read(place: Path) -> TokenizedTexts | None:
    bounds = map_array(place / "bounds.npy")
    ids = map_array(place / "ids.npy")
    if bounds is None or ids is None:
        return None
    limit = int(bounds[-1])
    optional = {name: map_array(place / f"{name}.npy") for name in _OPTIONAL}
    return TokenizedTexts(ids, np.array(bounds[:-1]), **optional, limit=None if limit < 0 else limit)
