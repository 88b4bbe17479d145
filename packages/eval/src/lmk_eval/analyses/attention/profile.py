"""The attention of pooling tokens by position, over many long documents and several models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64, Int64

from lmk_core import Layout
from lmk_core.encoders.loading import refuse_too_long
from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.analyses.attention.rows import check_attention, mean_attention
from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures import Analysis, Row
from lmk_eval.analyses.series import Series, check_names, long_texts

By = Literal["tokens", "fraction"]
HEAD = 0.1
"""The share of a document that counts as its beginning in the summary."""


@dataclass(frozen=True)
class Curve:
    """One model at one maximum length."""

    name: str
    max_length: int
    density: Float64[np.ndarray, "documents bins"]
    """Attention to a position of the bin, as a multiple of what uniform attention gives; NaN where there is none."""
    window: int | None
    """Tokens that the layer sees on either side; None where it sees all."""
    head: float
    """The share of attention that the first tenth of a document gets; 0.1 is uniform."""
    centre: float
    """The mean position that is looked at, 0 the beginning and 1 the end; 0.5 is uniform."""
    special: float
    """The share of attention that special tokens get: CLS, SEP, landmarks."""

    @property
    def mean(self) -> Float64[np.ndarray, " bins"]:
        """[bins] over the documents that have positions there; NaN where none has."""
        counts = self.documents
        return np.divide(np.nansum(self.density, axis=0), counts, out=np.full(len(counts), np.nan), where=counts > 0)

    @property
    def documents(self) -> Int64[np.ndarray, " bins"]:
        """[bins] how many documents have positions there."""
        return np.sum(~np.isnan(self.density), axis=0)

    @property
    def error(self) -> Float64[np.ndarray, " bins"]:
        """[bins] the standard error of the mean; 0 where there is one document."""
        counts = self.documents
        squares = np.nansum((self.density - self.mean) ** 2, axis=0)
        return np.sqrt(squares / np.maximum(counts - 1, 1) / np.maximum(counts, 1))


def analyse_attention(
    series: Sequence[Series],
    texts: Iterable[str],
    max_lengths: Sequence[int],
    *,
    by: By = "tokens",
    bins: int = 32,
    documents: int = 50,
    min_tokens: int | None = None,
    layer: int = -1,
    seed: int | None = 0,
    recorder: Recorder | None = None,
) -> Analysis:
    """Figure 2: the attention of the pooled positions (CLS, or the landmarks) to every position of long documents.

    Args:
        series: models, each read in its own way.
        texts: documents; some that are long enough are drawn, the same for every model.
        max_lengths: in tokens; a panel each.
        by: positions are counted in tokens, or as a fraction of the document.
        bins: how many, of equal width.
        documents: how many at most.
        min_tokens: of a document, special tokens not counted; the longest of ``max_lengths`` unless said.
        layer: counted from 0, or from the end as -1.
        seed: of the draw; None takes the first documents that are long enough.
        recorder: is told how many documents are done.

    Raises:
        AnalysisError: if no document is long enough, a model does not show its attention, or a setting is not valid.
        ValueError: for a length beyond a model's table of positions.
    """
    recorder = recorder or NullRecorder()
    check_names(series)
    _check(max_lengths, bins, documents)
    for one in series:
        check_attention(one.embedder, layer)
        refuse_too_long(one.embedder.module.encoder, max(max_lengths))
    wanted = max(max_lengths) if min_tokens is None else min_tokens
    chosen = long_texts(texts, series, wanted, documents, seed, recorder)
    curves: list[Curve] = []
    total = len(chosen) * len(series) * len(max_lengths)
    for length in max_lengths:
        for one in series:
            done = len(curves) * len(chosen)
            curves.append(_curve(one, chosen, length, by, bins, layer, partial(_told, recorder, done, total)))
    settings = {
        "series": [one.settings() for one in series],
        "max_lengths": list(max_lengths),
        "by": by,
        "bins": bins,
        "documents": len(chosen),
        "min_tokens": wanted,
        "layer": layer,
        "seed": seed,
    }
    return Analysis("attention", {"": _rows(curves, by, bins)}, _summary(curves), settings, partial(_draw, curves, by))


def bin_density(
    shares: Float64[np.ndarray, " tokens"], bins: int, by: By, max_length: int
) -> Float64[np.ndarray, " bins"]:
    """Attention by bin of positions, as a multiple of uniform attention: the mean over a bin's positions.

    Args:
        shares: of each position; they sum to 1.
        bins: of equal width.
        by: over ``max_length`` tokens, or over this document from 0 to 1.
        max_length: where the last bin ends, by tokens.

    Returns:
        NaN for bins that the document does not reach.
    """
    tokens = len(shares)
    extent = max_length if by == "tokens" else tokens
    where = np.arange(tokens) * bins // extent
    counts = np.bincount(where, minlength=bins)
    sums = np.bincount(where, weights=shares, minlength=bins)
    return np.divide(sums * tokens, counts, out=np.full(bins, np.nan), where=counts > 0)


def _curve(series: Series, texts: Sequence[str], max_length: int, by: By, bins: int, layer: int, done: Any) -> Curve:
    density = np.full((len(texts), bins), np.nan)
    heads, centres, special = [], [], []
    window = None
    layouts = series.embedder.tokenizer.layouts(texts, max_length=max_length)
    for number, layout in enumerate(layouts):
        shares, window = mean_attention(series.embedder, layout, layer)
        density[number] = bin_density(shares, bins, by, max_length)
        places = (np.arange(len(shares)) + 0.5) / len(shares)
        heads.append(_head(shares))
        centres.append(float(places @ shares))
        special.append(float(shares[_special(series, layout)].sum()))
        done(number + 1)
    means = [float(np.mean(values)) for values in (heads, centres, special)]
    return Curve(series.name, max_length, density, window, *means)


def _head(shares: Float64[np.ndarray, " tokens"]) -> float:
    """The share of the first tenth; a position that stands across its end counts in part."""
    end = HEAD * len(shares)
    whole = int(end)
    return float(shares[:whole].sum() + (end - whole) * shares[whole])


def _special(series: Series, layout: Layout) -> list[int]:
    """Positions of the special tokens: known by place, not by id."""
    tokenizer = series.embedder.tokenizer
    found = {0} if tokenizer.tokens.first is not None else set()
    if tokenizer.pooling.kind == "landmark":
        return sorted(found | set(layout.pooled))
    if tokenizer.pooling.kind == "multi_cls":
        found |= set(layout.pooled)
    return sorted(found | {len(layout) - 1})


def _told(recorder: Recorder, before: int, total: int, done: int) -> None:
    recorder.progress(before + done, total, unit="document")


def _rows(curves: Sequence[Curve], by: By, bins: int) -> list[Row]:
    rows: list[Row] = []
    for curve in curves:
        edges = np.arange(bins + 1) / bins * (curve.max_length if by == "tokens" else 1)
        counts, mean, error = curve.documents, curve.mean, curve.error
        for index in np.flatnonzero(counts):
            rows.append(
                {
                    "series": curve.name,
                    "max_length": curve.max_length,
                    "from": float(edges[index]),
                    "to": float(edges[index + 1]),
                    "attention_relative_to_uniform": float(mean[index]),
                    "standard_error": float(error[index]),
                    "documents": int(counts[index]),
                }
            )
    return rows


def _summary(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    return [
        {
            "series": curve.name,
            "max_length": curve.max_length,
            "share_of_first_tenth": curve.head,
            "mean_position": curve.centre,
            "share_of_special_tokens": curve.special,
            "window": curve.window,
        }
        for curve in curves
    ]


def _draw(curves: Sequence[Curve], by: By) -> Any:
    from lmk_eval.analyses.attention.plot import draw_attention

    return draw_attention(curves, by)


def _check(max_lengths: Sequence[int], bins: int, documents: int) -> None:
    if not max_lengths or min(max_lengths) < 2 or len(set(max_lengths)) < len(max_lengths):
        raise AnalysisError(f"max_lengths: {list(max_lengths)}; different numbers of at least 2 are valid")
    if not 1 <= bins <= min(max_lengths):
        raise AnalysisError(f"bins: {bins}; valid: 1 to {min(max_lengths)}, the shortest maximum length")
    if documents < 1:
        raise AnalysisError(f"documents: {documents}; valid: 1 or more")
