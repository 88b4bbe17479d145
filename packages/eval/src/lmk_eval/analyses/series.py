"""`Series`: one model as one line of a plot, and the documents that are long enough for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lmk_core import Embedder
from lmk_core.recording import Recorder
from lmk_eval.analyses.drawing import draw_long
from lmk_eval.analyses.errors import AnalysisError


@dataclass(frozen=True)
class Series:
    """A model, read in its own way, with the name that the plot gives it."""

    name: str
    embedder: Embedder
    model: str = ""
    """Where it came from, for the settings."""
    revision: str = ""
    """What tells these weights, read in this way, from all others; needed where results are kept."""

    def settings(self) -> dict[str, Any]:
        """What says which series it is, as plain JSON values."""
        return {"name": self.name, "model": self.model, "pooling": self.embedder.pooling.to_dict()}


def check_names(series: Sequence[Series]) -> None:
    """Refuse no series at all, and two of one name.

    Raises:
        AnalysisError: naming them.
    """
    names = [one.name for one in series]
    if not names:
        raise AnalysisError("models: none given; give one at least")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AnalysisError(f"models: {', '.join(twice)} stands twice; give names, such as short=PATH long=PATH")


def long_texts(
    texts: Iterable[str], series: Sequence[Series], min_tokens: int, limit: int, seed: int | None, recorder: Recorder
) -> list[str]:
    """Texts drawn among those that have at least so many tokens, special ones not counted, for every model.

    Args:
        texts: gone through once.
        series: whose tokenizers count.
        min_tokens: of a text.
        limit: how many texts at most.
        seed: of the draw; None takes the first ones that are long enough.
        recorder: is told how many were found.

    Raises:
        AnalysisError: if there is none; the message says how long the longest is.
    """

    def measure(some: Sequence[str]) -> list[int]:
        return [min(counts) for counts in zip(*(_lengths(one, list(some), min_tokens) for one in series), strict=True)]

    found = draw_long(
        texts, measure, min_tokens, limit, seed, lambda held: recorder.progress(held, limit, unit="long text")
    )
    if not found.texts:
        raise AnalysisError(
            f"texts: none of {found.seen} has {min_tokens} tokens or more, the longest has {found.longest}; "
            "give longer texts, or ask for less"
        )
    return found.texts


def _lengths(series: Series, texts: list[str], enough: int) -> list[int]:
    tokenizer = series.embedder.tokenizer
    return tokenizer.tokenize(texts, max_length=max(enough, 2), by_sentence=False).lengths.tolist()
