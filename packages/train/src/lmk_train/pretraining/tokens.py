"""A text's tokens with their words, as a pre-training reads them: whole, by sentence, or cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import sentence_pieces
from lmk_core.pooling import PoolingConfig
from lmk_core.texts.words import tokenize_words


@dataclass(frozen=True, eq=False)
class WordTokens:
    """One text."""

    ids: NDArray[np.int32]
    begins: NDArray[np.bool_]
    """[tokens] which of them begin a word."""
    ends: NDArray[np.int32]
    """[sentences] where each sentence ends, in tokens; without sentences where the text does."""

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> WordTokens:
        """Its tokens from ``start`` to ``stop``, and the sentences that are, in part, among them."""
        inside = self.ends[(self.ends > start) & (self.ends < stop)]
        ends = np.append(inside, stop).astype(np.int32) - start
        return WordTokens(self.ids[start:stop], self.begins[start:stop], ends)


def read_tokens(tokenizer: PoolingTokenizer, texts: Sequence[str], limit: int | None) -> Iterator[WordTokens]:
    """Each text's tokens, its first ``limit`` ones at most; sentence by sentence where landmarks stand so.

    Raises:
        SentenceSplitterError: the splitter returns something that does not follow in a text.
        ValueError: the tokenizer is written in Python.
    """
    by_sentence = tokenizer.pooling.granularity == "sentence"
    cuts = [[(0, len(text))] for text in texts]
    if by_sentence and (splitter := tokenizer.sentence_splitter) is not None:
        cuts = [sentence_pieces(text, splitter) for text in texts]
    flat = [text[start:end] for text, spans in zip(texts, cuts, strict=True) for start, end in spans]
    ids, lengths, begins = tokenize_words(tokenizer.hf_tokenizer, flat, limit)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    first = 0
    for spans in cuts:
        own = starts[first : first + len(spans) + 1]
        first += len(spans)
        text = slice(own[0], own[-1])
        whole = WordTokens(ids[text], begins[text], (own[1:] - own[0]).astype(np.int32))
        yield whole if limit is None or len(whole) <= limit else whole.part(0, limit)


def cut_tokens(text: WordTokens, room: int) -> Iterator[WordTokens]:
    """A long text as consecutive pieces of at most ``room`` tokens, cut between words where there is such a place."""
    places = [0]
    words = np.flatnonzero(text.begins)
    while len(text) - places[-1] > room:
        last = int(np.searchsorted(words, places[-1] + room, side="right")) - 1
        cut = int(words[last]) if last >= 0 else 0
        places.append(cut if cut > places[-1] else places[-1] + room)
    for start, stop in pairwise([*places, len(text)]):
        yield text.part(start, stop)


def text_room(pooling: PoolingConfig, max_length: int) -> int:
    """How many of a text's tokens a layout of ``max_length`` holds, with the most landmarks that it can have.

    By sentence that is not known: what landmarks leave no room for is then cut off.

    Example:
        >>> text_room(PoolingConfig("cls"), 512), text_room(PoolingConfig("landmark", granularity=(32, 64)), 512)
        (510, 495)
    """
    sizes = pooling.granularity
    if pooling.kind != "landmark" or sizes is None or isinstance(sizes, str):
        return max(max_length - 2, 1)
    smallest = min(sizes) if isinstance(sizes, tuple) else sizes
    return max((max_length - 1) * smallest // (smallest + 1), 1)
