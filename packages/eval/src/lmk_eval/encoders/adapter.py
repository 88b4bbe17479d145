"""An encoder as MTEB wants it: its identity, no prompts but those that are given, corpora larger than memory."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mteb.models import ModelMeta
from mteb.similarity_functions import cos_sim, pairwise_cos_sim
from mteb.types import PromptType

from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.corpus.shards import SHARD_CHARACTERS, SHARD_TEXTS, shard_bounds
from lmk_eval.corpus.tokens import TokenCache
from lmk_eval.encoders.encoding import Encoding, TextEncoder
from lmk_eval.encoders.index import CorpusIndex
from lmk_eval.encoders.prompts import Prompts


@dataclass(frozen=True)
class Store:
    """Where the vectors of corpora lie while they are needed.

    Attributes:
        folder: of their files; a temporary one unless said.
        storage: their type: float32, or float16 or bfloat16 for half the disk.
        shard_texts: texts in a file at most; what a stopped evaluation encodes again.
        shard_characters: characters in a file.
        share: (this process, of how many): encode only every so-manieth shard, see `evaluate`.
    """

    folder: Path | None = None
    storage: str = "float32"
    shard_texts: int = SHARD_TEXTS
    shard_characters: int = SHARD_CHARACTERS
    share: tuple[int, int] = (0, 1)


@dataclass
class _Progress:
    """How many texts are done, towards how many (None: each load counts by itself)."""

    recorder: Recorder
    done: int = 0
    total: int | None = None
    of_load: int = field(default=0)

    def begin(self, texts: int) -> None:
        """A load of this many texts begins."""
        if self.total is None:
            self.done, self.of_load = 0, texts

    def more(self, texts: int) -> None:
        """So many more are done."""
        self.done += texts
        self.recorder.progress(self.done, max(self.total or self.of_load, self.done), unit="text")


class EmbedderEncoder:
    """MTEB's `EncoderProtocol` and `SearchProtocol` around a model.

    Args:
        embedder: The model, already set to the reading that is evaluated.
        name: The model's name in MTEB's result cache, `org/name` or `name`.
        revision: What tells this model's results from those of others of the same name.
        max_length: Texts are cut to this many tokens.
        batch_tokens: Tokens in one batch; what suits the device unless said. Halved when memory runs out.
        recorder: Is told how many texts are done.
        prompts: What stands in front of texts; nothing unless said. MTEB's own prompts are never used.
        tokens: Where tokens are kept between readings; nowhere unless said.
        store: Where vectors of corpora lie.
        weights: The type of the model's weights, where it is not float32: part of the identity of results.
    """

    def __init__(
        self,
        embedder: TextEncoder,
        name: str,
        revision: str,
        *,
        max_length: int,
        batch_tokens: int | None = None,
        recorder: Recorder | None = None,
        prompts: Prompts | None = None,
        tokens: TokenCache | None = None,
        store: Store | None = None,
        weights: str | None = None,
    ) -> None:
        self.embedder = embedder
        self.prompts = prompts or Prompts()
        self.store = store or Store()
        self.recorder: Recorder = recorder or NullRecorder()
        self.encoding = Encoding(
            embedder,
            max_length=max_length,
            batch_tokens=batch_tokens,
            tokens=tokens or TokenCache(None),
            recorder=self.recorder,
        )
        self.progress = _Progress(self.recorder)
        self.together: Callable[[str, str, Callable[[tuple[int, int]], None]], None] | None = None
        """Where there are other processes: has a corpus (split, subset) encoded by all, this one's share by a call."""
        self._index: CorpusIndex | None = None
        self._temporary: str | None = None
        # The reading is part of where MTEB keeps results, on top of the caller's revision: two can never mix.
        reading: dict[str, Any] = {"max_length": max_length, "reading": _digest(getattr(embedder, "pooling", None))}
        # What is as it was before these could be said is left out, so that results of then are found.
        said = {"prompts": self.prompts.digest, "storage": _other(self.store.storage), "weights": _other(weights)}
        reading |= {key: value for key, value in said.items() if value is not None}
        self.mteb_model_meta = ModelMeta.create_empty(
            overwrites={"name": name, "revision": revision, "experiment_kwargs": reading, "modalities": ["text"]}
        )

    def expect(self, texts: int | None) -> None:
        """Start counting progress anew, towards this many texts (None: each load counts by itself)."""
        self.progress.done, self.progress.total = 0, texts

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        prompt_type: PromptType | None = None,
        **_: Any,
    ) -> np.ndarray:
        """Encode every text of the loader: float32 [texts, dim].

        All texts are collected first, so that sorting by length spans the whole load and not one batch of MTEB's.

        Raises:
            ValueError: if a vector holds NaN or infinity; names the text.
        """
        prompt = self.prompts.of(task_metadata, prompt_type)
        texts = [prompt + text for batch in inputs for text in batch["text"]]
        self.progress.begin(len(texts))
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        bounds = shard_bounds(np.array([len(text) for text in texts]))
        parts = [self.encoding(texts[start:end], self.progress.more) for start, end in itertools.pairwise(bounds)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Cosine similarity of every pair: [n1, n2]."""
        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Cosine similarity of the vectors at the same place: [n]."""
        return pairwise_cos_sim(embeddings1, embeddings2)

    def index(self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **_: Any) -> None:
        """Encode a corpus into shards; those that are finished already are left as they are."""
        if self._index is not None:
            self._index.remove()  # MTEB has kept the scores of the split or language before this one
        meta = self.mteb_model_meta
        source = {
            "model": [meta.name, meta.revision, dict(meta.experiment_kwargs or {})],
            "data": [task_metadata.name, task_metadata.dataset["revision"], hf_split, hf_subset],
        }
        self._index = CorpusIndex(corpus, self._folder() / task_metadata.name / f"{hf_subset}-{hf_split}", source, self)
        index, prompt = self._index, self.prompts.of(task_metadata, PromptType.document)
        if self.together is not None and index.unfinished > 1:
            done = self.progress.done
            self.together(hf_split, hf_subset, lambda share: index.encode(prompt, share))
            self.progress.done = done
        index.encode(prompt, self.store.share)

    def search(self, queries: Any, *, top_k: int, top_ranked: Any = None, **said: Any) -> dict[str, dict[str, float]]:
        """The scores of the nearest documents of every query: query id to document id to score.

        Raises:
            ValueError: if nothing was indexed.
        """
        if self._index is None:
            raise ValueError("a corpus must be indexed before it is searched")
        return self._index.search(queries, top_k, top_ranked, **said)

    def forget(self) -> None:
        """Remove the files of the corpus that was indexed last."""
        if self._index is not None:
            self._index.remove()
            self._index = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _folder(self) -> Path:
        if self.store.folder is not None:
            return self.store.folder
        self._temporary = self._temporary or tempfile.mkdtemp(prefix="lmk-embeddings-")
        return Path(self._temporary)


def _other(kind: str | None) -> str | None:
    return None if kind == "float32" else kind


def _digest(pooling: Any) -> str:
    """Names a pooling: the start of a SHA-256 of its canonical JSON, or `default` for a model without one."""
    if pooling is None:
        return "default"
    text = json.dumps(pooling.to_dict(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
