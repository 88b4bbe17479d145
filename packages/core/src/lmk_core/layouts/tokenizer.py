"""`PoolingTokenizer`: from texts to layouts and padded batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lmk_core.layouts.batch import PooledBatch, pad_layouts
from lmk_core.layouts.landmarks import fixed_ends, landmark_layout
from lmk_core.layouts.layout import Ids, Layout, multi_cls_ids, plain_ids
from lmk_core.layouts.sentences import SentenceSplitter, SentencexSplitter, UnsavedSplitter, sentence_pieces
from lmk_core.layouts.special_tokens import SpecialTokens
from lmk_core.pooling.config import Overflow, PoolingConfig

_SURROGATE = re.compile("[\ud800-\udfff]")


class PoolingTokenizer:
    """Lays texts out for one pooling strategy.

    The characters of a special token inside a text are ordinary text, and what is pooled is known by position alone.

    Args:
        tokenizer: a tokenizer of transformers. Its padding and truncation sides do not matter.
        pooling: the strategy.
        max_length: in tokens, special tokens and landmarks included; at least 2.
        sentence_splitter: for granularity "sentence": from a text to its sentences. Default: `sentencex`, English.

    Raises:
        SpecialTokensError: if the tokenizer has neither SEP nor EOS.
        SentenceSplitterError: if granularity is "sentence" and there is no splitter.
    """

    def __init__(
        self,
        tokenizer: Any,
        pooling: PoolingConfig,
        max_length: int = 512,
        sentence_splitter: SentenceSplitter | None = None,
    ) -> None:
        self.hf_tokenizer = tokenizer
        self.pooling = pooling
        self.max_length = _checked_length(max_length)
        self.tokens = SpecialTokens.from_tokenizer(tokenizer)
        if pooling.kind == "multi_cls":
            multi_cls_ids(np.zeros(0, dtype=np.int64), self.tokens, 2, 1)  # fails here rather than at the first text
        if pooling.granularity == "sentence":
            if isinstance(sentence_splitter, UnsavedSplitter):
                sentence_splitter("")  # fails here rather than at the first text
            sentence_splitter = sentence_splitter or SentencexSplitter()
        self.sentence_splitter = sentence_splitter

    def with_pooling(self, pooling: PoolingConfig) -> PoolingTokenizer:
        """The same tokenizer and length for another strategy."""
        return PoolingTokenizer(self.hf_tokenizer, pooling, self.max_length, self.sentence_splitter)

    def __call__(
        self,
        texts: Sequence[str],
        *,
        granularity: int | Sequence[int] | None = None,
        max_length: int | None = None,
    ) -> PooledBatch:
        """Lay the texts out and pad them: `layouts`, then `pad`."""
        return self.pad(self.layouts(texts, granularity=granularity, max_length=max_length))

    def pad(self, layouts: Sequence[Layout]) -> PooledBatch:
        """A padded batch: ``input_ids`` and ``attention_mask`` long, ``pooling_mask`` bool, each [batch, tokens]."""
        return pad_layouts(layouts, self.tokens.pad)

    def layouts(
        self,
        texts: Sequence[str],
        *,
        granularity: int | Sequence[int] | None = None,
        max_length: int | None = None,
        with_spans: bool = False,
    ) -> list[Layout]:
        """Lay each text out, in one call of the tokenizer.

        Args:
            texts: a list of texts; an empty text is CLS LMK (or CLS SEP).
            granularity: landmark only: the chunk size, one for all texts or one for each. Without it a variable
                strategy reads at its smallest size, the best reading in the paper.
            max_length: instead of the tokenizer's own.
            with_spans: landmark only: also give the characters each landmark closes.

        Raises:
            TypeError: if ``texts`` is a single string or holds something else than strings.
            ValueError: for a length below 2, a size below 1, or sizes or spans for another kind than landmark.
        """
        texts = checked_texts(texts)
        length = self.max_length if max_length is None else _checked_length(max_length)
        if self.pooling.kind != "landmark":
            if granularity is not None or with_spans:
                what = "with_spans" if granularity is None else "granularity"
                raise ValueError(f"{what} applies to the pooling kind 'landmark' only, not {self.pooling.kind!r}")
            return [self._plain_layout(ids, length) for ids, _ in self._tokenize(texts, length, False)]
        sizes = self._sizes(granularity, len(texts))
        if sizes is None:
            return self._sentence_layouts(texts, length, with_spans)
        overflow = self.pooling.overflow
        return [
            landmark_layout(ids, fixed_ends(len(ids), size), self.tokens, length, overflow, offsets)
            for (ids, offsets), size in zip(self._tokenize(texts, length, with_spans), sizes, strict=True)
        ]

    def _sizes(self, granularity: int | Sequence[int] | None, num_texts: int) -> list[int] | None:
        """One chunk size for each text, or None for sentences."""
        given: Any = self.pooling.granularity if granularity is None else granularity
        if isinstance(given, str):
            return None
        if granularity is None and isinstance(given, tuple):
            given = min(given)
        sizes = [int(size) for size in given] if isinstance(given, Iterable) else [int(given)] * num_texts
        if len(sizes) != num_texts:
            raise ValueError(f"granularity: {len(sizes)} sizes for {num_texts} texts; give one, or one for each text")
        if sizes and min(sizes) < 1:
            raise ValueError(f"granularity: {min(sizes)} is not an integer of at least 1")
        return sizes

    def _plain_layout(self, ids: Ids, max_length: int) -> Layout:
        if self.pooling.kind == "multi_cls":
            out, positions = multi_cls_ids(ids, self.tokens, max_length, self.pooling.every or 128)
            return Layout(out.tolist(), positions.tolist())
        out = plain_ids(ids, self.tokens, max_length).tolist()
        if self.pooling.kind == "cls":
            return Layout(out, [0])
        step = self.pooling.k or 1 if self.pooling.kind == "mean_at_k" else 1
        return Layout(out, list(range(0, len(out), step)))

    def _sentence_layouts(self, texts: list[str], max_length: int, with_spans: bool) -> list[Layout]:
        """One landmark after each sentence; each sentence is tokenized alone, all in one call."""
        splitter = self.sentence_splitter or SentencexSplitter()
        pieces = [sentence_pieces(text, splitter) for text in texts]
        cut = [text[start:end] for text, spans in zip(texts, pieces, strict=True) for start, end in spans]
        tokenized = iter(self._tokenize(cut, max_length, with_spans))
        layouts = []
        for spans in pieces:
            parts = [next(tokenized) for _ in spans]
            ids = np.concatenate([ids for ids, _ in parts])
            ends = np.unique(np.cumsum([len(ids) for ids, _ in parts]))
            offsets = None
            if with_spans:
                shifted = zip(parts, spans, strict=True)
                offsets = np.concatenate([own + start for (_, own), (start, _) in shifted if own is not None])
            layouts.append(
                landmark_layout(ids, ends[ends > 0], self.tokens, max_length, self.pooling.overflow, offsets)
            )
        return layouts

    def _tokenize(self, texts: list[str], max_length: int, with_offsets: bool) -> list[tuple[Ids, Ids | None]]:
        """Each text's first ``max_length`` ids, without special tokens, and their characters if asked for."""
        if not texts:
            return []
        call = _tokenizer_call(self.hf_tokenizer, with_offsets)
        try:
            encoded = call(texts)
        except (TypeError, UnicodeEncodeError):
            # Half of a surrogate pair, which broken JSON leaves behind, is no text for the tokenizer.
            encoded = call([_SURROGATE.sub("\ufffd", text) for text in texts])
        all_ids = [np.asarray(ids[:max_length], dtype=np.int64) for ids in encoded["input_ids"]]
        if not with_offsets:
            return [(ids, None) for ids in all_ids]
        offsets = [np.asarray(own[:max_length], dtype=np.int64).reshape(-1, 2) for own in encoded["offset_mapping"]]
        return list(zip(all_ids, offsets, strict=True))


class LandmarkTokenizer(PoolingTokenizer):
    """The landmark case of `PoolingTokenizer`: CLS (chunk LMK)*."""

    def __init__(
        self,
        tokenizer: Any,
        granularity: int | Sequence[int] | str = 32,
        max_length: int = 512,
        overflow: Overflow = "cut",
        sentence_splitter: SentenceSplitter | None = None,
    ) -> None:
        sizes: Any = granularity if isinstance(granularity, (int, str)) else tuple(granularity)
        pooling = PoolingConfig("landmark", granularity=sizes, overflow=overflow)
        super().__init__(tokenizer, pooling, max_length, sentence_splitter)


def _tokenizer_call(tokenizer: Any, with_offsets: bool) -> Callable[[list[str]], Any]:
    def call(texts: list[str]) -> Any:
        return tokenizer(
            texts,
            add_special_tokens=False,
            split_special_tokens=True,
            padding=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=with_offsets,
            verbose=False,
        )

    return call


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list.

    Raises:
        TypeError: if they are one string, or one of them is no string.
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts: expected a list of strings, found one {type(texts).__name__}; pass [text]")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}]: expected a string, found {type(text).__name__}")
    return texts


def _checked_length(max_length: int) -> int:
    if max_length < 2:
        raise ValueError(f"max_length: {max_length} is too short; at least 2")
    return max_length
