"""One corpus of one split: encoded shard by shard, searched exactly, removed when it is scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from datasets import Dataset
from mteb._create_dataloaders import create_dataloader
from mteb.types import PromptType

from lmk_eval.corpus.search import BLOCK_ROWS, top_k
from lmk_eval.corpus.shards import Shards, shard_bounds
from lmk_eval.encoders.documents import document_characters, document_ids, document_texts, rows_of

if TYPE_CHECKING:
    from lmk_eval.encoders.adapter import EmbedderEncoder


class CorpusIndex:
    """The vectors of a corpus in shards.

    Args:
        corpus: MTEB's data set of documents.
        folder: Where the shards lie.
        source: What the vectors are of, see `Shards`.
        encoder: Encodes documents and queries, and says how shards are cut and kept.
    """

    def __init__(self, corpus: Dataset, folder: Path, source: Mapping[str, Any], encoder: EmbedderEncoder) -> None:
        self.corpus = corpus
        self.encoder = encoder
        store = encoder.store
        bounds = shard_bounds(document_characters(corpus), store.shard_texts, store.shard_characters)
        self.shards = Shards(folder, source, bounds, store.storage)

    @property
    def unfinished(self) -> int:
        """How many shards are not finished."""
        return sum(not self.shards.finished(shard) for shard in range(len(self.shards)))

    def encode(self, prompt: str, share: tuple[int, int]) -> None:
        """Encode the shards that are not finished; of those only a share (number, of how many)."""
        own, processes = share
        progress = self.encoder.progress
        progress.begin(len(self.corpus))
        for shard in range(own, len(self.shards), processes):
            rows = self.shards.rows(shard)
            if self.shards.finished(shard):
                progress.more(len(rows) * processes)
                continue
            texts = [prompt + text for text in document_texts(self.corpus, rows)]
            self.shards.write(shard, self.encoder.encoding(texts, lambda done: progress.more(done * processes)))

    def search(
        self, queries: Dataset, k: int, top_ranked: Mapping[str, list[str]] | None, **said: Any
    ) -> dict[str, dict[str, float]]:
        """Query id to document id to score: the ``k`` best of all, or of each query's own candidates."""
        loader = create_dataloader(
            queries, task_metadata=said["task_metadata"], prompt_type=PromptType.query, **said["encode_kwargs"]
        )
        found = self.encoder.encode(loader, task_metadata=said["task_metadata"], prompt_type=PromptType.query)
        vectors = torch.from_numpy(found).to(_device(self.encoder.embedder))
        names = list(queries["id"])
        if top_ranked is not None:
            return self._rerank(names, vectors, top_ranked, k)
        scores, rows = top_k(vectors, self.shards.blocks(BLOCK_ROWS), k)
        return self._named(names, scores.cpu().numpy(), rows.cpu().numpy())

    def remove(self) -> None:
        """Remove the files."""
        self.shards.remove()

    def _named(self, names: list[str], scores: np.ndarray, rows: np.ndarray) -> dict[str, dict[str, float]]:
        unique, places = np.unique(rows, return_inverse=True)
        ids = document_ids(self.corpus, unique)
        return {
            name: {ids[place]: float(score) for place, score in zip(own, row, strict=True)}
            for name, own, row in zip(names, places.reshape(rows.shape), scores, strict=True)
        }

    def _rerank(
        self, names: list[str], vectors: torch.Tensor, top_ranked: Mapping[str, list[str]], k: int
    ) -> dict[str, dict[str, float]]:
        """The best of each query's candidates."""
        known = rows_of(self.corpus, [one for own in top_ranked.values() for one in own])
        results: dict[str, dict[str, float]] = {name: {} for name in names}
        for name, vector in zip(names, vectors, strict=True):
            candidates = list(dict.fromkeys(top_ranked.get(name, ())))
            if not candidates:
                continue
            documents = self.shards.take([known[one] for one in candidates]).to(vector.device)
            scores, order = (documents @ vector).topk(min(k, len(candidates)))
            pairs = zip(order.tolist(), scores.tolist(), strict=True)
            results[name] = {candidates[place]: score for place, score in pairs}
        return results


def _device(model: Any) -> torch.device:
    found = getattr(model, "device", None)
    return found if isinstance(found, torch.device) else torch.device("cpu")
