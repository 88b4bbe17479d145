"""Counting tokens, and what of them is beyond a maximum length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Int64

from lmk_core.recording import NullRecorder, Recorder
from lmk_core.texts.tokenizing import tokenize_texts
from lmk_eval.analyses.errors import AnalysisError
from lmk_eval.analyses.figures import Analysis, Row

MAX_LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 32768)
SPECIAL_TOKENS = 2
"""CLS and SEP, which a maximum length counts too."""
_READ_AT_ONCE = 256
_FEWEST = 16
"""Where the first bin ends, in tokens; every further one reaches twice as far."""


@dataclass(frozen=True)
class Lengths:
    """The lengths of one data set's texts."""

    name: str
    tokens: Int64[np.ndarray, " texts"]
    """Of each text, special tokens included."""

    def cut(self, max_length: int) -> tuple[float, float]:
        """The share of texts that are longer than this, and the share of all tokens that is lost."""
        beyond = np.maximum(self.tokens - max_length, 0)
        return float(np.mean(beyond > 0)), float(beyond.sum() / self.tokens.sum())


def analyse_lengths(
    data: Mapping[str, Iterable[str]],
    tokenizer: Any,
    max_lengths: Sequence[int] = MAX_LENGTHS,
    *,
    limit: int | None = None,
    recorder: Recorder | None = None,
) -> Analysis:
    """Figure 3: a histogram of the texts' lengths, and what is cut at each maximum length.

    Args:
        data: by name; each is gone through once and not kept.
        tokenizer: of transformers.
        max_lengths: in tokens, special tokens included.
        limit: texts of each data set at most, the first ones.
        recorder: is told how many texts are counted; the total is not known before.

    Raises:
        AnalysisError: if a data set has no text, or a setting is not valid.
    """
    if not max_lengths or min(max_lengths) < 2:
        raise AnalysisError(f"max_lengths: {list(max_lengths)}; numbers of at least 2 are valid")
    ordered = sorted(set(max_lengths))
    found = [
        Lengths(name, count_tokens(islice(texts, limit), tokenizer, name, recorder)) for name, texts in data.items()
    ]
    edges = _edges(found)
    summary = [_summary(one) for one in found]
    settings = {
        "data": list(data),
        "tokenizer": str(getattr(tokenizer, "name_or_path", "")),
        "max_lengths": ordered,
        "special_tokens": SPECIAL_TOKENS,
        "limit": limit,
    }
    tables = {"": _histogram(found, edges), "cut": _cut(found, ordered)}
    return Analysis("lengths", tables, summary, settings, partial(_draw, found, edges, ordered))


def count_tokens(
    texts: Iterable[str], tokenizer: Any, name: str = "texts", recorder: Recorder | None = None
) -> Int64[np.ndarray, " texts"]:
    """The tokens of each text, CLS and SEP included.

    Raises:
        AnalysisError: if there is no text.
    """
    recorder = recorder or NullRecorder()
    parts: list[np.ndarray] = []
    rest = iter(texts)
    seen = 0
    while some := list(islice(rest, _READ_AT_ONCE)):
        parts.append(tokenize_texts(tokenizer, some, None)[1])
        seen += len(some)
        recorder.progress(seen, 0, unit=f"text of {name}")
    if not parts:
        raise AnalysisError(f"{name}: there is no text in it")
    return np.concatenate(parts).astype(np.int64) + SPECIAL_TOKENS


def _edges(found: Sequence[Lengths]) -> list[int]:
    """Bins that double: 0 to 16 tokens, to 32, to 64, up to the longest text."""
    longest = max(int(one.tokens.max()) for one in found)
    edges = [0, _FEWEST]
    while edges[-1] < longest:
        edges.append(2 * edges[-1])
    shortest = min(int(one.tokens.min()) for one in found)
    while len(edges) > 2 and edges[1] < shortest:
        edges.pop(0)
    return edges


def histogram(tokens: Int64[np.ndarray, " texts"], edges: Sequence[int]) -> Int64[np.ndarray, " bins"]:
    """Texts in each bin; a bin holds what is longer than its left edge, up to and with its right one."""
    return np.bincount(np.searchsorted(edges, tokens, side="left") - 1, minlength=len(edges) - 1)


def _histogram(found: Sequence[Lengths], edges: Sequence[int]) -> list[Row]:
    return [
        {
            "data": one.name,
            "longer_than": edges[index],
            "up_to": edges[index + 1],
            "texts": int(count),
            "share": float(count / len(one.tokens)),
        }
        for one in found
        for index, count in enumerate(histogram(one.tokens, edges))
    ]


def _cut(found: Sequence[Lengths], max_lengths: Sequence[int]) -> list[Row]:
    rows: list[Row] = []
    for one in found:
        for length in max_lengths:
            texts, tokens = one.cut(length)
            rows.append({"data": one.name, "max_length": length, "texts_cut": texts, "tokens_lost": tokens})
    return rows


def _summary(one: Lengths) -> dict[str, Any]:
    marks = {"median": 50, "90%": 90, "99%": 99}
    return {
        "data": one.name,
        "texts": len(one.tokens),
        "tokens": int(one.tokens.sum()),
        "mean": float(one.tokens.mean()),
        **{name: float(np.percentile(one.tokens, percent)) for name, percent in marks.items()},
        "shortest": int(one.tokens.min()),
        "longest": int(one.tokens.max()),
    }


def _draw(found: Sequence[Lengths], edges: Sequence[int], max_lengths: Sequence[int]) -> Any:
    from lmk_eval.analyses.lengths.plot import draw_lengths

    return draw_lengths(found, edges, max_lengths)
