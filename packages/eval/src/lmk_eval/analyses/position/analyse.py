"""NDCG@10 by the place of the evidence and by the length of the document, for several models."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lmk_core.recording import NullRecorder, Recorder
from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures import Analysis, Row
from lmk_eval.analyses.position.groups import Groups, length_groups, longest_relevant, position_groups
from lmk_eval.analyses.series import Series, check_names
from lmk_eval.suites import Suite
from lmk_eval.tasks.folder import FolderData, read_folder

METRIC = "ndcg_at_10"
TASK = "documents"


@dataclass(frozen=True)
class Found:
    """One model's scores, query by query, at one maximum length."""

    name: str
    scores: Mapping[str, float]
    """Query id to NDCG@10."""

    def of(self, queries: Sequence[str]) -> tuple[float, float | None]:
        """The mean over these queries, and its standard error where there are two or more."""
        values = np.array([self.scores[query] for query in queries])
        error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        return float(values.mean()), error


def analyse_position(
    series: Sequence[Series],
    folder: str | Path,
    *,
    split: str = "test",
    position_key: str | None = None,
    bins: int = 8,
    max_length: int = 8192,
    work: Path | None = None,
    recorder: Recorder | None = None,
) -> Analysis:
    """NDCG@10 of a local retrieval set, by where the evidence stands in its document and by the document's length.

    Args:
        series: models, each read in its own way. The first one's tokenizer counts the documents.
        folder: in the BEIR layout.
        split: which ``qrels/<split>.tsv``.
        position_key: of the queries' metadata: a fraction from 0 to 1, or a group (quarter, paragraph). Without it
            evidence is where the query's own text stands in its document; where it stands in none, only lengths are
            given.
        bins: of fractions.
        max_length: in tokens, for queries and documents.
        work: where evaluations are kept, so that a stopped one goes on; each series needs a ``revision`` then. A
            temporary folder unless said.
        recorder: is told how many texts are encoded.

    Raises:
        TaskDataError: if the folder can't be read.
        AnalysisError: if no query has the key, or it makes no groups.
    """
    recorder = recorder or NullRecorder()
    check_names(series)
    if work is not None and any(not one.revision for one in series):
        raise AnalysisError("work: results that are kept need a revision of every model")
    data = read_folder(folder, split)
    positions = position_groups(data, position_key, bins)
    lengths = _lengths(series[0], data)
    suite = Suite.from_folder(TASK, Path(folder), split=split)
    with tempfile.TemporaryDirectory() as temporary:
        place = work or Path(temporary)
        found = [Found(one.name, _scores(one, suite, place / (one.revision or str(number)), max_length, recorder))
                 for number, one in enumerate(series)]  # fmt: skip
    tables = {"length": _rows(found, length_groups(lengths))}
    if positions is not None:
        tables = {"": _rows(found, positions), **tables}
    settings = {
        "series": [one.settings() for one in series],
        "folder": str(folder),
        "split": split,
        "max_length": max_length,
        "positions": None if positions is None else positions.source,
        "queries": len(data.queries),
        "documents": len(data.documents),
        "documents_counted_by": series[0].name,
    }
    return Analysis("position", tables, _summary(found, lengths, max_length), settings, partial(_draw, found, tables))


def _lengths(series: Series, data: FolderData) -> dict[str, int]:
    """Query id to the tokens of its longest relevant document, special tokens not counted."""
    from lmk_core.texts.tokenizing import tokenize_texts

    texts = {query: longest_relevant(data, query) for query in data.queries}
    different = list(dict.fromkeys(texts.values()))
    counts = tokenize_texts(series.embedder.tokenizer.hf_tokenizer, different, None)[1].tolist()
    known = dict(zip(different, counts, strict=True))
    return {query: known[text] for query, text in texts.items()}


def _scores(series: Series, suite: Suite, folder: Path, max_length: int, recorder: Recorder) -> dict[str, float]:
    from lmk_eval.evaluation import evaluate, read_per_query

    evaluate(
        series.embedder,
        suite,
        folder=folder,
        name="lmk/model",
        revision=series.revision or "given",
        max_length=max_length,
        recorder=recorder,
    )
    return read_per_query(folder, suite.tasks[0].name, METRIC)


def _rows(found: Sequence[Found], groups: Groups) -> list[Row]:
    rows: list[Row] = []
    for one in found:
        for label, queries in zip(groups.labels, groups.members, strict=True):
            mean, error = one.of(queries)
            row = {"series": one.name, "group": label, METRIC: mean, "standard_error": error}
            rows.append({**row, "queries": len(queries)})
    return rows


def _summary(found: Sequence[Found], lengths: Mapping[str, int], max_length: int) -> list[dict[str, Any]]:
    cut = sum(length > max_length for length in lengths.values()) / len(lengths)
    return [
        {
            "series": one.name,
            METRIC: one.of(list(one.scores))[0],
            "queries": len(one.scores),
            "share_of_documents_cut": cut,
        }
        for one in found
    ]


def _draw(found: Sequence[Found], tables: Mapping[str, Sequence[Row]]) -> Any:
    from lmk_eval.analyses.position.plot import draw_position

    return draw_position([one.name for one in found], tables)
