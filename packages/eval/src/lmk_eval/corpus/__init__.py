"""Corpora larger than memory: vectors in memory-mapped shards, tokens kept once, exact search over both."""

from typing import TYPE_CHECKING

from lmk_eval._lazy import lazy_exports

if TYPE_CHECKING:
    from lmk_eval.corpus.search import top_k
    from lmk_eval.corpus.shards import Shards, shard_bounds
    from lmk_eval.corpus.storage import STORAGES, Storage
    from lmk_eval.corpus.tokens import TokenCache

__all__ = ["STORAGES", "Shards", "Storage", "TokenCache", "shard_bounds", "top_k"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "STORAGES": "lmk_eval.corpus.storage",
        "Shards": "lmk_eval.corpus.shards",
        "Storage": "lmk_eval.corpus.storage",
        "TokenCache": "lmk_eval.corpus.tokens",
        "shard_bounds": "lmk_eval.corpus.shards",
        "top_k": "lmk_eval.corpus.search",
    },
)
