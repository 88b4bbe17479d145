"""Texts that were tokenized before, mapped into memory."""

from lmk_train.data.cache.building import TokenCache, text_keys, tokenize_row
from lmk_train.data.cache.files import TokenFile, TokenRow
from lmk_train.data.cache.fingerprints import cache_folder, content_digest, tokenizer_digest

__all__ = [
    "TokenCache",
    "TokenFile",
    "TokenRow",
    "cache_folder",
    "content_digest",
    "text_keys",
    "tokenize_row",
    "tokenizer_digest",
]
