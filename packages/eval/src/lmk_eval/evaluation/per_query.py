"""Each query's own scores, kept compressed for every retrieval task: what tests of significance are made from."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

METRICS = ("ndcg_at_10", "precision_at_1", "recall_at_10")
"""The metrics that are kept of each query."""
FOLDER = "per_query"


def write_per_query(folder: Path, task: str, values: Mapping[str, Mapping[str, float]]) -> None:
    """Write ``per_query/<task>.json.gz``: metric to query id to value. The same values give the same bytes."""
    path = folder / FOLDER / f"{task}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    try:
        temporary.write_bytes(gzip.compress(text.encode(), mtime=0))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_per_query(folder: str | Path, task: str, metric: str = "ndcg_at_10") -> dict[str, float]:
    """Query id to value, of one task of an evaluation.

    Evaluations of before kept NDCG@10 alone, as ``per_query/<task>.json``; these are read too.

    Args:
        folder: the evaluation's, as `evaluate` was given it.
        task: its name in the suite.
        metric: one of `METRICS`.

    Raises:
        FileNotFoundError: nothing is kept of this task.
        KeyError: not this metric; the message lists those that are.
    """
    kept = Path(folder) / FOLDER / f"{task}.json.gz"
    if kept.is_file():
        values: Any = json.loads(gzip.decompress(kept.read_bytes()))
    else:
        values = {"ndcg_at_10": json.loads(kept.with_suffix("").read_text(encoding="utf-8"))}
    if metric not in values:
        raise KeyError(f"{kept}: no {metric} by query; it has: {', '.join(sorted(values))}")
    return values[metric]
