"""Effective rank and uniformity of several models' embeddings of the same texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float64

from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures import Analysis, Row
from lmk_eval.analyses.geometry.measure import effective_rank, mean_cosine, singular_shares, uniformity
from lmk_eval.analyses.series import Series, check_names

_ENCODED_AT_ONCE = 256


@dataclass(frozen=True)
class Geometry:
    """How one model's embeddings fill their space."""

    name: str
    dim: int
    rank: float
    centred_rank: float
    """Of the vectors less their mean: what is left when the direction that all share is taken away."""
    uniformity: float
    cosine: float
    spectrum: Float64[np.ndarray, " rank"]
    """Shares of the singular values, largest first."""


def analyse_geometry(
    series: Sequence[Series],
    texts: Iterable[str],
    *,
    max_length: int | None = None,
    limit: int = 2000,
    recorder: Recorder | None = None,
) -> Analysis:
    """Effective rank, uniformity and mean cosine of the embeddings, and their spectrum of singular values.

    Args:
        series: models, each read in its own way.
        texts: the first ``limit`` are taken. With fewer texts than dimensions the rank is bounded by the texts.
        max_length: in tokens; each model's own unless said.
        limit: how many texts at most.
        recorder: is told how many texts are encoded.

    Raises:
        AnalysisError: for fewer than two texts.
    """
    recorder = recorder or NullRecorder()
    check_names(series)
    if limit < 2:
        raise AnalysisError(f"limit: {limit}; valid: 2 or more")
    chosen = list(islice(texts, limit))
    if len(chosen) < 2:
        raise AnalysisError(f"texts: {len(chosen)} found; two at least are needed to compare")
    found = []
    for number, one in enumerate(series):
        vectors = _encode(one, chosen, max_length, partial(_told, recorder, number, len(series), len(chosen)))
        found.append(_measure(one, vectors))
    settings = {
        "series": [{**one.settings(), "max_length": max_length or one.embedder.max_length} for one in series],
        "texts": len(chosen),
    }
    return Analysis("geometry", {"": _rows(found)}, _summary(found, len(chosen)), settings, partial(_draw, found))


def _encode(series: Series, texts: Sequence[str], max_length: int | None, told: Any) -> np.ndarray:
    parts = []
    for start in range(0, len(texts), _ENCODED_AT_ONCE):
        parts.append(series.embedder.encode(texts[start : start + _ENCODED_AT_ONCE], max_length=max_length))
        told(min(start + _ENCODED_AT_ONCE, len(texts)))
    vectors = np.concatenate(parts)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise AnalysisError(f"{series.name}: the vector of text {bad[0]} (from 0) holds NaN or infinity")
    return vectors


def _measure(series: Series, vectors: np.ndarray) -> Geometry:
    return Geometry(
        series.name,
        vectors.shape[1],
        effective_rank(vectors),
        effective_rank(vectors - vectors.mean(axis=0, dtype=np.float64)),
        uniformity(vectors),
        mean_cosine(vectors),
        singular_shares(vectors),
    )


def _rows(found: Sequence[Geometry]) -> list[Row]:
    return [
        {"series": one.name, "number": index + 1, "share_of_singular_values": float(share)}
        for one in found
        for index, share in enumerate(one.spectrum)
    ]


def _summary(found: Sequence[Geometry], texts: int) -> list[dict[str, Any]]:
    return [
        {
            "series": one.name,
            "dim": one.dim,
            "texts": texts,
            "effective_rank": one.rank,
            "effective_rank_centred": one.centred_rank,
            "uniformity": one.uniformity,
            "mean_cosine": one.cosine,
        }
        for one in found
    ]


def _told(recorder: Recorder, number: int, models: int, texts: int, done: int) -> None:
    recorder.progress(number * texts + done, models * texts, unit="text")


def _draw(found: Sequence[Geometry]) -> Any:
    from lmk_eval.analyses.geometry.plot import draw_geometry

    return draw_geometry(found)
