"""Texts are tokenized once, however many readings need them: their tokens lie in files named by what was tokenized."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmk_core.layouts import PoolingTokenizer, TokenizedTexts
from lmk_eval.corpus.storage import map_array, write_array

_PARTS = ("ids", "bounds", "pieces")


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
            return tokenizer.tokenize(texts, max_length=max_length)
        place = self.folder / _key(tokenizer, texts, max_length)
        known = _read(place)
        if known is not None:
            self.found += len(texts)
            return known
        self.tokenized += len(texts)
        fresh = tokenizer.tokenize(texts, max_length=max_length)
        _write(place, fresh)
        return fresh

    def remove(self) -> None:
        """Remove what was kept."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
