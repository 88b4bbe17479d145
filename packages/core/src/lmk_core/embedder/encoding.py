"""From texts to vectors: windows of texts, tokenized once, laid out for each reading, and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmk_core.embedder.batches import ordered_by_length
from lmk_core.embedder.devices import Running
from lmk_core.layouts import Layouts, PoolingTokenizer
from lmk_core.texts.reading import Text

# Tokenized at once and sorted together: enough to fill batches evenly, little enough to keep in memory.
_WINDOW_TEXTS = 65_536
_WINDOW_CHARACTERS = 32_000_000


class LandmarkVectors(NamedTuple):
    """What a text's landmarks say."""

    vectors: NDArray[np.float32]
    """[landmarks, dim] hidden states, not normalised: their mean, normalised, is the text's vector."""
    spans: list[tuple[int, int]]
    """[landmarks] the characters (start, end) each landmark closes."""


@dataclass(frozen=True)
class Reading:
    """How texts are laid out for one reading of a model."""

    tokenizer: PoolingTokenizer
    max_length: int | None = None
    prompt: str | Sequence[str] | None = None
    """One for all texts, or one for each."""
    include_prompt: bool = True
    with_spans: bool = False

    @property
    def by_sentence(self) -> bool:
        """Whether texts are tokenized sentence by sentence."""
        return self.tokenizer.pooling.granularity == "sentence"


def read_vectors(
    running: Running, readings: Sequence[Reading], texts: Sequence[Text], done: Callable[[int], Any]
) -> Iterator[tuple[int, NDArray[np.int64], Layouts, NDArray[np.float32]]]:
    """All vectors of all texts, sorted by length over all of them, longest first.

    Args:
        running: what runs them.
        readings: of the same weights, tokenizer, lengths and prompts; each window of texts is tokenized once for them.
        texts: all in memory.
        done: called with the number of texts that are done in one more reading.

    Yields:
        The reading, the texts' indices, their layouts, and what came out.
    """
    order = ordered_by_length(texts)
    for window in text_windows(texts, order):
        part = [texts[index] for index in window]
        for by_sentence in (False, True):
            group = [number for number, reading in enumerate(readings) if reading.by_sentence == by_sentence]
            if not group:
                continue
            first = readings[group[0]]
            prompt = first.prompt
            if prompt is not None and not isinstance(prompt, str):
                prompt = [prompt[index] for index in window]
            tokenized = first.tokenizer.tokenize(
                part,
                max_length=first.max_length,
                with_spans=first.with_spans,
                by_sentence=by_sentence,
                prompt=prompt,
                include_prompt=first.include_prompt,
            )
            for number in group:
                layouts = readings[number].tokenizer.lay_out(tokenized, max_length=first.max_length)
                for indices, vectors in running.run(number, layouts):
                    yield number, window[indices], layouts.select(indices), vectors
                    done(len(indices))


def read_rows(
    running: Running, readings: Sequence[Reading], texts: Sequence[Text], dim: int, done: Callable[[int], Any]
) -> list[NDArray[np.float32]]:
    """The vectors [texts, dim] of each reading, in the order of the texts."""
    out = [np.zeros((len(texts), dim), dtype=np.float32) for _ in readings]
    for number, indices, _, vectors in read_vectors(running, readings, texts, done):
        out[number][indices] = vectors
    return out


def read_landmarks(
    running: Running, readings: Sequence[Reading], texts: Sequence[Text], done: Callable[[int], Any]
) -> list[LandmarkVectors]:
    """Each text's landmarks in one reading, in the order of the texts."""
    found: dict[int, LandmarkVectors] = {}
    for _, indices, layouts, vectors in read_vectors(running, readings, texts, done):
        found.update(zip(indices.tolist(), split_landmarks(layouts, vectors), strict=True))
    return [found[index] for index in range(len(texts))]


def text_windows(texts: Sequence[Text], order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Cut many texts, taken in this order, into windows that are tokenized together."""
    start, characters = 0, 0
    for position, index in enumerate(order):
        text = texts[index]
        length = len(text) if isinstance(text, str) else sum(map(len, text))
        if position > start and (position - start == _WINDOW_TEXTS or characters + length > _WINDOW_CHARACTERS):
            yield order[start:position]
            start, characters = position, 0
        characters += length
    if start < len(order):
        yield order[start:]


def split_landmarks(layouts: Layouts, vectors: NDArray[np.float32]) -> Iterator[LandmarkVectors]:
    """The rows of each text, with their spans."""
    bounds = layouts.pooled_bounds
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        spans = [] if layouts.spans is None else [(int(a), int(b)) for a, b in layouts.spans[first:last]]
        yield LandmarkVectors(vectors[first:last].copy(), spans)
