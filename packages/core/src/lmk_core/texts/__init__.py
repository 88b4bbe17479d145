"""Texts as token ids, before anything is inserted: what the tokenizer says about them. Numpy only."""

from __future__ import annotations

from lmk_core.texts.special_tokens import SpecialTokens, SpecialTokensError
from lmk_core.texts.tokenized import TokenizedTexts

__all__ = ["SpecialTokens", "SpecialTokensError", "TokenizedTexts"]
