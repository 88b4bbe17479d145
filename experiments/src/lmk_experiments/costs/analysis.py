"""The cost of an analysis: tokens that its models read, by the settings of its kind."""

from __future__ import annotations

from lmk_experiments.costs.estimate import Cost, encoding_hours, total
from lmk_experiments.costs.throughput import Throughput
from lmk_experiments.grids.analyses.entries import (
    AttentionEntry,
    CostEntry,
    Entry,
    GeometryEntry,
    LandmarksEntry,
    LengthsEntry,
)
from lmk_experiments.grids.analyses.plan import PlannedAnalysis

_NO_MODEL = "no model is run: texts are tokenized on the processor"
_UNKNOWN = "unknown: how much text is read"
_GRANULARITY = 32
"""Tokens between landmarks where a model's own reading is not known."""


def analysis_cost(planned: PlannedAnalysis, speed: Throughput | None = None) -> Cost:
    """The cost of one analysis; its files are small."""
    if isinstance(planned.entry, LengthsEntry):
        return Cost(0.0, 0.0, 0.0, _NO_MODEL, 0.0)
    costs = []
    for series in planned.series:
        size = None if series.pooling is None else series.pooling.granularity
        tokens = _tokens(planned.entry, size if isinstance(size, int) else _GRANULARITY)
        if tokens is None:
            costs.append(Cost(None, 0.0, 0.0, _UNKNOWN))
            continue
        hours, basis = encoding_hours(tokens, series.size, speed)
        costs.append(Cost(hours, 0.0, 0.0, basis, tokens, "every text at its longest"))
    summed = total(costs)
    known = any(cost.gpu_hours is not None for cost in costs)
    return summed if known else Cost(None, 0.0, 0.0, costs[0].basis)


def _tokens(entry: Entry, granularity: int) -> float | None:
    """Tokens that one model reads, every text at its longest; ``None`` where that is not known before."""
    match entry:
        case AttentionEntry():
            return float(entry.documents * sum(entry.lengths))
        case LandmarksEntry():  # the document whole, and each of its chunks alone
            chunks = entry.max_chunks or entry.min_chunks
            return float(entry.documents * chunks * (2 * granularity + 3))
        case GeometryEntry():
            return None if entry.max_length is None else float(entry.limit * entry.max_length)
        case CostEntry():
            readings = (1 + len(entry.granularity)) * ((entry.rounds + 1) if entry.rounds else 0)
            return (
                None
                if entry.max_length is None and readings
                else float(entry.limit * (entry.max_length or 0) * readings)
            )
    return None
