"""The vectors that Figure 4 compares: landmarks of the whole document, and each of its chunks encoded alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from lmk_core import Embedder, Layout, Layouts
from lmk_core.embedder.batches import BatchOptions, BatchRunner, evaluating
from lmk_eval.analyses.errors import AnalysisError


@dataclass(frozen=True)
class Chunked:
    """One document, laid out whole, and its chunks laid out alone."""

    whole: Layout
    """CLS (chunk LMK)*, without what stands behind the last landmark."""
    alone: Layouts
    """CLS chunk LMK, one for each landmark: the same tokens as in the whole, so nothing is tokenized anew."""


def chunk_document(embedder: Embedder, text: str, max_length: int, max_chunks: int | None) -> Chunked:
    """Lay a document and its chunks out.

    Args:
        embedder: read with landmarks.
        text: the document.
        max_length: in tokens, as for encoding.
        max_chunks: only the first so many, so that documents are as hard as each other; None for all that fit.
    """
    tokenizer = embedder.tokenizer
    (layout,) = tokenizer.layouts([text], max_length=max_length)
    pooled = layout.pooled[:max_chunks]
    ids = layout.input_ids[: pooled[-1] + 1]
    first = tokenizer.tokens.first
    head = [] if first is None else [first]
    starts = [len(head), *(place + 1 for place in pooled[:-1])]
    alone = []
    for start, end in zip(starts, pooled, strict=True):
        one = [*head, *ids[start:end], ids[end]]
        alone.append(Layout(one, [len(one) - 1]))
    return Chunked(Layout(ids, pooled), Layouts.from_list(alone))


def length_for(embedder: Embedder, chunks: int) -> int:
    """The tokens that so many chunks take with their landmarks.

    Raises:
        AnalysisError: for chunks by sentence, whose length is not known.
    """
    size = embedder.pooling.granularity
    if isinstance(size, tuple):
        size = min(size)
    if not isinstance(size, int):
        raise AnalysisError(f"max_length: must be given where the granularity is {size!r}; chunks have no fixed length")
    head = 0 if embedder.tokenizer.tokens.first is None else 1
    return head + chunks * (size + 1)


class Encoder:
    """Gives the vectors at the pooled positions of layouts."""

    def __init__(self, embedder: Embedder, batch_tokens: int | None = None) -> None:
        self.embedder = embedder
        options = BatchOptions(batch_tokens, landmarks=True)
        self.runner = BatchRunner(embedder.module, embedder.device, embedder.tokenizer.tokens.pad, options)

    def __call__(self, layouts: Sequence[Layout] | Layouts) -> Float32[np.ndarray, "pooled dim"]:
        """Hidden states of all pooled positions, text by text in the order given; not normalised."""
        flat = layouts if isinstance(layouts, Layouts) else Layouts.from_list(layouts)
        out = np.zeros((len(flat.pooled), self.embedder.dim), dtype=np.float32)
        bounds = flat.pooled_bounds
        with evaluating(self.embedder.module):
            for indices in self.runner.batches(flat.lengths):
                vectors = self.runner.run(flat.select(indices))
                places = np.concatenate([np.arange(bounds[index], bounds[index + 1]) for index in indices])
                out[places] = vectors
        return out
