"""Figure 4 over many documents and several models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64

from lmk_core.encoders.loading import refuse_too_long
from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.analyses.drawing import draw_long
from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures import Analysis, Row
from lmk_eval.analyses.landmarks.hits import FINDS, LEFT, RIGHT, Find, neighbour_hits
from lmk_eval.analyses.landmarks.vectors import Chunked, Encoder, chunk_document, length_for
from lmk_eval.analyses.series import Series, check_names

MIN_CHUNKS = 256
REACH = 5
"""How far from a landmark chunks are looked at, on either side."""
MOST = 32
"""The largest k that is drawn, at least."""
DISTANCES = tuple(distance for distance in range(-REACH, REACH + 1) if distance)


@dataclass(frozen=True)
class Captured:
    """What one model's landmarks tell."""

    name: str
    k: int
    chunks: tuple[int, ...]
    """Of each document."""
    hits: dict[tuple[Find, int], Float64[np.ndarray, "documents most"]]
    """What is looked for and the distance, to Hit@1, Hit@2, ... of each document."""

    def mean(self, find: Find, distance: int) -> Float64[np.ndarray, " most"]:
        """[most] Hit@1 to Hit@most, the mean over documents; NaN at a distance that no document has."""
        return self.hits[find, distance].mean(axis=0)

    def bias(self, find: Find) -> Float64[np.ndarray, "documents most"]:
        """[documents, most] Hit@k to the left neighbour less that to the right one."""
        return self.hits[find, LEFT] - self.hits[find, RIGHT]

    @property
    def chance(self) -> Float64[np.ndarray, " most"]:
        """[most] what guessing scores."""
        most = self.hits["chunk", LEFT].shape[1]
        return np.mean([np.minimum(np.arange(1, most + 1) / chunks, 1) for chunks in self.chunks], axis=0)


def analyse_landmarks(
    series: Sequence[Series],
    texts: Iterable[str],
    *,
    k: int = 10,
    min_chunks: int = MIN_CHUNKS,
    max_chunks: int | None = MIN_CHUNKS,
    max_length: int | None = None,
    documents: int = 50,
    seed: int | None = 0,
    recorder: Recorder | None = None,
) -> Analysis:
    """Figure 4: how well the chunks beside a landmark are found by it, to the left and to the right.

    Each chunk is encoded alone; each landmark saw the whole document. The landmark is the query, all the document's
    chunks are the candidates, and Hit@k says how often the left (the right) neighbour is among the k nearest. The
    reverse, where the chunk looks for its landmark, is given too.

    Args:
        series: models, each read with landmarks.
        texts: documents; some of enough chunks are drawn, for each model by its own tokens.
        k: of the summary and of the plot by distance.
        min_chunks: of a document. The paper's, 256.
        max_chunks: only the first so many of a document count, so that all are equally hard; None for all that fit.
        max_length: in tokens; without it what ``max_chunks`` chunks take, which may be more than the model was made
            for.
        documents: how many at most.
        seed: of the draw; None takes the first documents that have enough chunks.
        recorder: is told how many documents are done.

    Raises:
        AnalysisError: for a model without landmarks, no document of enough chunks, or a setting that is not valid.
        ValueError: for a length beyond a model's table of positions.
    """
    recorder = recorder or NullRecorder()
    check_names(series)
    lengths = [_length(one, k, min_chunks, max_chunks, max_length, documents) for one in series]
    held = texts if len(series) == 1 else list(texts)
    found = []
    for number, (one, length) in enumerate(zip(series, lengths, strict=True)):
        told = partial(_told, recorder, number * documents, len(series) * documents)
        found.append(_captured(one, held, k, min_chunks, max_chunks, length, documents, seed, told))
    settings = {
        "series": [
            {**one.settings(), "max_length": length, "documents": len(captured.chunks)}
            for one, length, captured in zip(series, lengths, found, strict=True)
        ],
        "k": k,
        "min_chunks": min_chunks,
        "max_chunks": max_chunks,
        "seed": seed,
    }
    tables = {"": _by_k(found), "distance": _by_distance(found)}
    return Analysis("landmarks", tables, _summary(found), settings, partial(_draw, found))


def _length(
    series: Series, k: int, min_chunks: int, max_chunks: int | None, max_length: int | None, documents: int
) -> int:
    """The maximum length for this model, with every setting checked."""
    kind = series.embedder.pooling.kind
    if kind != "landmark":
        raise AnalysisError(f"{series.name}: is read as {kind!r}; only the pooling kind 'landmark' has landmarks")
    if min_chunks < 2:
        raise AnalysisError(f"min_chunks: {min_chunks}; valid: 2 or more")
    if max_chunks is not None and max_chunks < min_chunks:
        raise AnalysisError(f"max_chunks: {max_chunks} is below min_chunks, {min_chunks}")
    if not 1 <= k < min_chunks:
        raise AnalysisError(f"k: {k}; valid: 1 to {min_chunks - 1}, fewer than min_chunks")
    if documents < 1:
        raise AnalysisError(f"documents: {documents}; valid: 1 or more")
    if max_length is None:
        if max_chunks is None:
            raise AnalysisError("max_length: must be given where max_chunks is not")
        max_length = length_for(series.embedder, max_chunks)
    refuse_too_long(series.embedder.module.encoder, max_length)
    return max_length


def _captured(
    series: Series,
    texts: Iterable[str],
    k: int,
    min_chunks: int,
    max_chunks: int | None,
    max_length: int,
    documents: int,
    seed: int | None,
    told: Any,
) -> Captured:
    most = min(max(MOST, k), min_chunks)
    encode = Encoder(series.embedder)
    counts: list[int] = []
    hits: dict[tuple[Find, int], list[np.ndarray]] = {(find, at): [] for find in FINDS for at in DISTANCES}
    for text in _drawn(series, texts, min_chunks, max_chunks, max_length, documents, seed):
        chunked = chunk_document(series.embedder, text, max_length, max_chunks)
        _add(hits, encode, chunked, most)
        counts.append(len(chunked.alone))
        told(len(counts))
    return Captured(series.name, k, tuple(counts), {key: np.stack(values) for key, values in hits.items()})


def _drawn(
    series: Series,
    texts: Iterable[str],
    min_chunks: int,
    max_chunks: int | None,
    max_length: int,
    documents: int,
    seed: int | None,
) -> list[str]:
    """Documents of enough chunks."""

    def measure(some: Sequence[str]) -> list[int]:
        return [len(chunk_document(series.embedder, text, max_length, max_chunks).alone) for text in some]

    found = draw_long(texts, measure, min_chunks, documents, seed, lambda _: None)
    if not found.texts:
        raise AnalysisError(
            f"texts: none of {found.seen} has {min_chunks} chunks or more within {max_length} tokens for "
            f"{series.name}, the most are {found.longest}; give longer texts, smaller chunks, or ask for fewer"
        )
    return found.texts


def _add(hits: dict[tuple[Find, int], list[np.ndarray]], encode: Encoder, chunked: Chunked, most: int) -> None:
    landmarks, chunks = encode([chunked.whole]), encode(chunked.alone)
    for (find, distance), values in hits.items():
        values.append(neighbour_hits(landmarks, chunks, distance, most, find))


def _by_k(found: Sequence[Captured]) -> list[Row]:
    rows: list[Row] = []
    for one in found:
        for find in FINDS:
            left, right, bias = one.mean(find, LEFT), one.mean(find, RIGHT), one.bias(find).mean(axis=0)
            for index, chance in enumerate(one.chance):
                rows.append(
                    {
                        "series": one.name,
                        "find": find,
                        "k": index + 1,
                        "left": float(left[index]),
                        "right": float(right[index]),
                        "bias": float(bias[index]),
                        "chance": float(chance),
                        "documents": len(one.chunks),
                    }
                )
    return rows


def _by_distance(found: Sequence[Captured]) -> list[Row]:
    rows: list[Row] = []
    for one in found:
        for find in FINDS:
            for distance in DISTANCES:
                value = float(one.mean(find, distance)[one.k - 1])
                row = {"series": one.name, "find": find, "k": one.k, "distance": distance}
                rows.append({**row, "hit": None if np.isnan(value) else value})
    return rows


def _summary(found: Sequence[Captured]) -> list[dict[str, Any]]:
    lines = []
    for one in found:
        for find in FINDS:
            at = one.k - 1
            bias = one.bias(find)[:, at]
            error = float(bias.std(ddof=1) / np.sqrt(len(bias))) if len(bias) > 1 else None
            lines.append(
                {
                    "series": one.name,
                    "find": find,
                    "k": one.k,
                    "left": float(one.mean(find, LEFT)[at]),
                    "right": float(one.mean(find, RIGHT)[at]),
                    "bias": float(bias.mean()),
                    "bias_standard_error": error,
                    "chance": float(one.chance[at]),
                    "documents": len(one.chunks),
                    "chunks": float(np.mean(one.chunks)),
                }
            )
    return lines


def _told(recorder: Recorder, before: int, total: int, done: int) -> None:
    recorder.progress(before + done, total, unit="document")


def _draw(found: Sequence[Captured]) -> Any:
    from lmk_eval.analyses.landmarks.plot import draw_landmarks

    return draw_landmarks(found)
