"""`PoolingTokenizer`: from texts to layouts and padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from lmk_core.layouts.batch import PackedBatch, PooledBatch, pack_layouts, pad_layouts
from lmk_core.layouts.landmarks import landmark_layouts
from lmk_core.layouts.layout import Layout, Layouts
from lmk_core.layouts.plain import first_token, multi_cls_layouts, plain_layouts
from lmk_core.layouts.sentences import SentenceSplitter, SentencexSplitter, UnsavedSplitter, sentence_pieces
from lmk_core.pooling.config import Overflow, PoolingConfig
from lmk_core.texts.chunks import Chunks, chunk_parts
from lmk_core.texts.ragged import Ints
from lmk_core.texts.reading import Text, checked_prompts, checked_texts_and_pairs, read_texts
from lmk_core.texts.special_tokens import SpecialTokens
from lmk_core.texts.tokenized import TokenizedTexts


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
            first_token(self.tokens)  # fails here rather than at the first text
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
        texts: Sequence[Text],
        *,
        granularity: int | Sequence[int] | None = None,
        max_length: int | None = None,
        prompt: str | Sequence[str] | None = None,
        include_prompt: bool = True,
    ) -> PooledBatch:
        """Lay the texts out and pad them: `layouts`, then `pad`."""
        layouts = self.layouts(
            texts, granularity=granularity, max_length=max_length, prompt=prompt, include_prompt=include_prompt
        )
        return self.pad(layouts)

    def pad(self, layouts: Sequence[Layout]) -> PooledBatch:
        """A padded batch: ``input_ids`` and ``attention_mask`` long, ``pooling_mask`` bool, each [batch, tokens]."""
        return pad_layouts(layouts, self.tokens.pad)

    def pack(self, layouts: Sequence[Layout]) -> PackedBatch:
        """A batch without padding: the texts one behind the other, and where each begins."""
        return pack_layouts(layouts)

    def decode(self, layout: Layout) -> str:
        """The layout as text, its special tokens and landmarks written out."""
        return self.hf_tokenizer.decode(layout.input_ids)

    def layouts(
        self,
        texts: Sequence[Text],
        *,
        granularity: int | Sequence[int] | None = None,
        max_length: int | None = None,
        with_spans: bool = False,
        prompt: str | Sequence[str] | None = None,
        include_prompt: bool = True,
    ) -> Layouts:
        """Lay each text out: `tokenize`, then `lay_out`.

        Args:
            texts: texts, or pairs of texts that become one vector; an empty text is CLS LMK (or CLS SEP).
            granularity: landmark only: the chunk size, one for all texts or one for each. Without it a variable
                strategy reads at its smallest size, the best reading in the paper.
            max_length: instead of the tokenizer's own.
            with_spans: landmark only: also give the characters each landmark closes.
            prompt: a prefix, one for all texts or one for each. Its tokens count as the text's do.
            include_prompt: False leaves the prompt's tokens out of the pooling, see `tokenize`.

        Raises:
            TypeError: if ``texts`` is a single string or holds something else than strings and pairs of strings.
            ValueError: for a length below 2, a size below 1, or sizes or spans for another kind than landmark.
        """
        if with_spans:
            self._check_landmark("with_spans")
        tokenized = self.tokenize(
            texts,
            max_length=max_length,
            with_spans=with_spans,
            by_sentence=self.pooling.granularity == "sentence" and granularity is None,
            prompt=prompt,
            include_prompt=include_prompt,
        )
        return self.lay_out(tokenized, granularity=granularity, max_length=max_length)

    def tokenize(
        self,
        texts: Sequence[Text],
        *,
        max_length: int | None = None,
        with_spans: bool = False,
        by_sentence: bool | None = None,
        prompt: str | Sequence[str] | None = None,
        include_prompt: bool = True,
    ) -> TokenizedTexts:
        """Tokenize each text, in one call of the tokenizer, for `lay_out` at any granularity.

        Args:
            texts: texts, or pairs of texts that become one vector.
            max_length: the longest that they will be laid out for, instead of the tokenizer's own.
            with_spans: also give the characters of each token, so that landmarks have spans. They are those of the
                text without its prompt; of a pair, those of its two texts joined.
            by_sentence: tokenize sentence by sentence, which gives other ids than the whole text with some tokenizers.
                Without it, whether the pooling's granularity is "sentence".
            prompt: a prefix, one for all texts or one for each: the layout is that of prompt + text.
            include_prompt: False leaves what stands before the text's first token out of the pooling, CLS too, as
                Sentence Transformers does; and like it, counts the tokens of the prompt alone. Something is always
                pooled: where the prompt fills all, the last position that would have been (instead of CLS, SEP).

        Raises:
            TypeError: if ``texts`` is a single string or holds something else than strings and pairs of strings.
            ValueError: for a length below 2, a number of prompts that is not the number of texts, or spans from a
                tokenizer that is written in Python.
        """
        checked = checked_texts_and_pairs(texts)
        if by_sentence is None:
            by_sentence = self.pooling.granularity == "sentence"
        splitter = self.sentence_splitter or (SentencexSplitter() if by_sentence else None)
        return read_texts(
            self.hf_tokenizer,
            checked,
            limit=self._length(max_length),
            with_offsets=with_spans,
            pieces_of=partial(sentence_pieces, splitter=splitter) if by_sentence and splitter else None,
            prompts=checked_prompts(prompt, len(checked)),
            include_prompt=include_prompt,
        )

    def lay_out(
        self,
        texts: TokenizedTexts,
        *,
        granularity: int | Sequence[int] | None = None,
        max_length: int | None = None,
    ) -> Layouts:
        """Lay tokenized texts out, as often and in as many ways as wanted.

        Args:
            texts: what `tokenize` gave, or a selection of it.
            granularity: as in `layouts`.
            max_length: as in `layouts`; not more than the texts were tokenized for.

        Raises:
            ValueError: for a length below 2 or beyond what the texts were tokenized for, a size below 1, sizes for
                another kind than landmark, or texts that were tokenized by sentence for sizes (or the reverse).
        """
        length = self._length(max_length)
        if texts.limit is not None and length > texts.limit:
            raise ValueError(f"max_length: {length} is more than the {texts.limit} that the texts were tokenized for")
        kind = self.pooling.kind
        if kind == "landmark":
            return landmark_layouts(texts, self._chunks(texts, granularity), self.tokens, length, self.pooling.overflow)
        if granularity is not None:
            self._check_landmark("granularity")
        if kind == "multi_cls":
            every = np.full(len(texts), self.pooling.every or 128)
            return multi_cls_layouts(texts, chunk_parts(*texts.parts(), every), self.tokens, length)
        steps = {"cls": None, "mean_at_k": self.pooling.k}
        return plain_layouts(texts, self.tokens, length, steps.get(kind, 1))

    def _length(self, max_length: int | None) -> int:
        return self.max_length if max_length is None else _checked_length(max_length)

    def _check_landmark(self, what: str) -> None:
        if self.pooling.kind != "landmark":
            raise ValueError(f"{what} applies to the pooling kind 'landmark' only, not {self.pooling.kind!r}")

    def _chunks(self, texts: TokenizedTexts, granularity: int | Sequence[int] | None) -> Chunks:
        sizes = self._sizes(granularity, len(texts))
        if (sizes is None) != (texts.pieces is not None):
            have, want = ("whole", "by sentence") if sizes is None else ("by sentence", "whole")
            raise ValueError(f"the texts were tokenized {have}, and this granularity needs them tokenized {want}")
        return chunk_parts(*texts.parts(), sizes)

    def _sizes(self, granularity: int | Sequence[int] | None, num_texts: int) -> Ints | None:
        """[texts] chunk sizes, or None for sentences."""
        given: Any = self.pooling.granularity if granularity is None else granularity
        if isinstance(given, str):
            return None
        if granularity is None and isinstance(given, tuple):
            given = min(given)
        sizes = np.asarray(given, dtype=np.int64)
        if not sizes.ndim:
            sizes = np.full(num_texts, sizes)
        if len(sizes) != num_texts:
            raise ValueError(f"granularity: {len(sizes)} sizes for {num_texts} texts; give one, or one for each text")
        if len(sizes) and sizes.min() < 1:
            raise ValueError(f"granularity: {sizes.min()} is not an integer of at least 1")
        return sizes


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


def _checked_length(max_length: int) -> int:
    if max_length < 2:
        raise ValueError(f"max_length: {max_length} is too short; at least 2")
    return max_length
