"""An encoder as MTEB wants it, around an `Embedder`: whole loads at once, no prompts, progress by text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from mteb.models import ModelMeta
from mteb.similarity_functions import cos_sim, pairwise_cos_sim

from lmk_core.recording import NullRecorder, Recorder

# One call of the embedder gets about this many batches, so that progress is told every few batches
# while the texts of most batches are of nearly equal length.
_BATCHES_A_CALL = 8
_CHARACTERS_A_TOKEN = 4  # a rough guess, only used to size the calls


@runtime_checkable
class TextEncoder(Protocol):
    """What is needed of a model: `lmk_core.Embedder` has it."""

    def encode(self, texts: Sequence[str], *, max_length: int | None = None, batch_tokens: int = 16384) -> Any:
        """Vectors of the texts, in their order: float32 array [texts, dim], unit length."""
        ...


class EmbedderEncoder:
    """MTEB's `EncoderProtocol` around an embedder.

    Args:
        embedder: The model, already set to the reading that is evaluated.
        name: The model's name in MTEB's result cache, `org/name` or `name`.
        revision: What tells this model's results from those of others of the same name.
        max_length: Texts are cut to this many tokens.
        batch_tokens: Tokens in one batch of the embedder, padding included.
        recorder: Is told how many texts are done.
    """

    def __init__(
        self,
        embedder: TextEncoder,
        name: str,
        revision: str,
        *,
        max_length: int,
        batch_tokens: int = 16384,
        recorder: Recorder | None = None,
    ) -> None:
        self.embedder = embedder
        self.max_length = max_length
        self.batch_tokens = batch_tokens
        self.recorder: Recorder = recorder or NullRecorder()
        self._done = 0
        self._total: int | None = None
        # The reading is part of where MTEB keeps results, on top of the caller's revision: two can never mix.
        reading = {"max_length": max_length, "reading": _digest(getattr(embedder, "pooling", None))}
        self.mteb_model_meta = ModelMeta.create_empty(
            overwrites={"name": name, "revision": revision, "experiment_kwargs": reading, "modalities": ["text"]}
        )

    def expect(self, texts: int | None) -> None:
        """Start counting progress anew, towards this many texts (None: each load counts by itself)."""
        self._done, self._total = 0, texts

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> np.ndarray:
        """Encode every text of the loader: float32 [texts, dim]. MTEB's prompts and other settings are not used.

        All texts are collected first, so that sorting by length spans the whole load and not one batch of MTEB's.

        Raises:
            ValueError: if a vector holds NaN or infinity; names the text.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        if self._total is None:
            self._done = 0
        total = self._total or len(texts)
        vectors: np.ndarray | None = None
        for indices in self._calls(texts):
            found = np.asarray(
                self.embedder.encode(
                    [texts[index] for index in indices], max_length=self.max_length, batch_tokens=self.batch_tokens
                ),
                dtype=np.float32,
            )
            _check_finite(found, indices, texts)
            if vectors is None:
                vectors = np.empty((len(texts), found.shape[1]), dtype=np.float32)
            vectors[indices] = found
            self._done += len(indices)
            self.recorder.progress(self._done, max(total, self._done), unit="text")
        return np.empty((0, 0), dtype=np.float32) if vectors is None else vectors

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Cosine similarity of every pair: [n1, n2]."""
        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Cosine similarity of the vectors at the same place: [n]."""
        return pairwise_cos_sim(embeddings1, embeddings2)

    def _calls(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Indices of the texts for each call of the embedder, the longest texts first.

        The longest first: what doesn't fit into memory fails at once, and the guess of the time left errs high.
        """
        budget = _BATCHES_A_CALL * _CHARACTERS_A_TOKEN * self.batch_tokens
        call: list[int] = []
        cost = 0
        for index in sorted(range(len(texts)), key=lambda index: -len(texts[index])):
            size = min(len(texts[index]), _CHARACTERS_A_TOKEN * self.max_length) + 1
            if call and cost + size > budget:
                yield call
                call, cost = [], 0
            call.append(index)
            cost += size
        if call:
            yield call


def _check_finite(vectors: np.ndarray, indices: Sequence[int], texts: Sequence[str]) -> None:
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
        text = texts[indices[int(bad[0])]]
        raise ValueError(
            f"{bad.size} of {len(indices)} vectors hold NaN or infinity; the first is that of the text {text[:60]!r}"
        )


def _digest(pooling: Any) -> str:
    """Names a pooling: the start of a SHA-256 of its canonical JSON, or `default` for a model without one."""
    if pooling is None:
        return "default"
    text = json.dumps(pooling.to_dict(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
