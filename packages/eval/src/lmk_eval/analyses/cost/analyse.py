"""The cost of landmarks by granularity, for several models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from lmk_core import Embedder
from lmk_core.pooling import PoolingConfig, PoolingConfigError
from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.analyses.cost.measure import PLAIN, Seconds, Tokens, count_layouts, measure_seconds
from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures import Analysis, Row
from lmk_eval.analyses.series import Series, check_names

GRANULARITIES = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Cost:
    """One model, read at one granularity; None is without landmarks."""

    name: str
    granularity: int | None
    tokens: Tokens
    seconds: Seconds | None


def analyse_cost(
    series: Sequence[Series],
    texts: Iterable[str],
    granularities: Sequence[int] = GRANULARITIES,
    *,
    max_length: int | None = None,
    limit: int = 200,
    rounds: int = 3,
    recorder: Recorder | None = None,
) -> Analysis:
    """Extra tokens, text that no longer fits, and extra seconds of landmarks, beside the same weights without them.

    Args:
        series: models; each is read with landmarks at every granularity, and as CLS text SEP.
        texts: the first ``limit`` are taken.
        granularities: tokens between two landmarks.
        max_length: in tokens; each model's own unless said. It is not raised for landmarks, so long texts lose some of
            their own tokens.
        limit: how many texts at most.
        rounds: how often all texts are encoded; 0 counts tokens only. A round more comes first as a warm-up.
        recorder: is told how many encodings of all texts are done.

    Raises:
        AnalysisError: if there is no text, a model cannot be read so, or a setting is not valid.
    """
    recorder = recorder or NullRecorder()
    check_names(series)
    if not granularities or min(granularities) < 1 or len(set(granularities)) < len(granularities):
        raise AnalysisError(f"granularities: {list(granularities)}; different numbers of at least 1 are valid")
    if rounds < 0 or limit < 1:
        raise AnalysisError(f"rounds: {rounds}, limit: {limit}; valid: 0 or more rounds, 1 or more texts")
    chosen = list(islice(texts, limit))
    if not chosen:
        raise AnalysisError("texts: there is none")
    sizes = [None, *granularities]
    readings = [[_read(one, size) for size in sizes] for one in series]
    costs: list[Cost] = []
    runs = (rounds + 1) * len(sizes)
    for number, (one, own) in enumerate(zip(series, readings, strict=True)):
        length = max_length or one.embedder.max_length
        tokens = [count_layouts(reading, chosen, length) for reading in own]
        seconds: list[Seconds | None] = [None] * len(own)
        if rounds:
            told = partial(_told, recorder, number * runs, len(series) * runs)
            seconds = [*measure_seconds(own, chosen, length, rounds, told)]
        costs += [Cost(one.name, *parts) for parts in zip(sizes, tokens, seconds, strict=True)]
    settings = {
        "series": [{**one.settings(), "max_length": max_length or one.embedder.max_length} for one in series],
        "granularities": list(granularities),
        "texts": len(chosen),
        "rounds": rounds,
        "devices": sorted({str(one.embedder.device) for one in series}),
    }
    rows = cost_rows(costs)
    return Analysis("cost", {"": rows}, rows, settings, partial(_draw, rows))


def _read(series: Series, granularity: int | None) -> Embedder:
    pooling = PLAIN if granularity is None else PoolingConfig("landmark", granularity=granularity)
    try:
        return series.embedder.with_pooling(pooling)
    except PoolingConfigError as error:
        raise AnalysisError(f"{series.name}: {error}") from None


def cost_rows(costs: Sequence[Cost]) -> list[Row]:
    """A line for each model and granularity: what it costs more than without landmarks."""
    rows: list[Row] = []
    for one in costs:
        plain = next(other for other in costs if other.name == one.name and other.granularity is None)
        row: dict[str, Any] = {
            "series": one.name,
            "granularity": one.granularity,
            "tokens": one.tokens.total,
            "landmarks": one.tokens.landmarks,
            "text_tokens": one.tokens.text,
            "extra_tokens": one.tokens.total / plain.tokens.total - 1,
            "text_lost": 1 - one.tokens.text / max(plain.tokens.text, 1),
        }
        if one.seconds is not None and plain.seconds is not None:
            row["seconds"] = one.seconds.median
            row["extra_seconds"] = one.seconds.median / plain.seconds.median - 1
            if one is not plain:
                row["extra_seconds_least"] = min(one.seconds.rounds) / plain.seconds.median - 1
                row["extra_seconds_most"] = max(one.seconds.rounds) / plain.seconds.median - 1
        rows.append(row)
    return rows


def _told(recorder: Recorder, before: int, total: int, done: int) -> None:
    recorder.progress(before + done, total, unit="encoding of all texts")


def _draw(rows: Sequence[Row]) -> Any:
    from lmk_eval.analyses.cost.plot import draw_cost

    return draw_cost(rows)
