"""What holds for every batch of texts, whatever is in them."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer
from lmk_core.pooling import KINDS

SPECIAL = st.sampled_from(["[SEP]", "[CLS]", "</s>", "[PAD] ", "\n\n", ". ", "the river", "家。", "\ud83d", "é", " "])
TEXT = st.lists(SPECIAL | st.text(max_size=12), max_size=12).map("".join)
BATCH = st.lists(TEXT | st.tuples(TEXT, TEXT), min_size=1, max_size=5)
SIZES = st.integers(1, 20)
LENGTHS = st.integers(2, 60)
OVERFLOWS = st.sampled_from(["cut", "budget"])


@functools.cache
def loaded(folder):
    """One tokenizer for all the examples of a property."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def plain_ids(tokenizer, text):
    """The ordinary call, for text without halves of surrogate pairs."""
    clean = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return tokenizer(clean, add_special_tokens=False, split_special_tokens=True)["input_ids"]


@given(batch=BATCH, kind=st.sampled_from(KINDS), max_length=LENGTHS, prompt=TEXT, include_prompt=st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_kind(tiny_tokenizer_folder, batch, kind, max_length, prompt, include_prompt):
    tokenizer = PoolingTokenizer(loaded(tiny_tokenizer_folder), PoolingConfig(kind), max_length)
    layouts = tokenizer.layouts(batch, prompt=prompt, include_prompt=include_prompt)
    assert len(layouts) == len(batch)
    assert layouts.lengths.max() <= max_length
    assert layouts.lengths.min() >= 2
    for text, layout in zip(batch, layouts, strict=True):
        assert layout.pooled
        assert layout.pooled == sorted(set(layout.pooled))
        assert layout.pooled[0] >= 0
        assert layout.pooled[-1] < len(layout)
        assert layout == tokenizer.layouts([text], prompt=prompt, include_prompt=include_prompt)[0]
    padded, packed = tokenizer.pad(layouts), tokenizer.pack(layouts)
    mask = np.zeros(padded["input_ids"].shape, dtype=bool)
    for row, layout in enumerate(layouts):
        mask[row, layout.pooled] = True
    np.testing.assert_array_equal(padded["pooling_mask"], mask)
    real = padded["attention_mask"].bool()
    assert padded["input_ids"][real].tolist() == packed["input_ids"].tolist()
    assert padded["pooling_mask"][real].nonzero().flatten().tolist() == packed["pooled"].tolist()
    assert real.sum(1).tolist() == packed["cu_seqlens"].diff().tolist()


@given(texts=st.lists(TEXT, min_size=1, max_size=5), sizes=st.data(), max_length=LENGTHS, overflow=OVERFLOWS)
@settings(max_examples=200, deadline=None)
def test_without_the_landmarks_the_plain_ids_are_left(tiny_tokenizer_folder, texts, sizes, max_length, overflow):
    chosen = sizes.draw(st.lists(SIZES, min_size=len(texts), max_size=len(texts)))
    hf_tokenizer = loaded(tiny_tokenizer_folder)
    tokenizer = LandmarkTokenizer(hf_tokenizer, (1, 2), max_length, overflow)
    for text, size, layout in zip(texts, chosen, tokenizer.layouts(texts, granularity=chosen), strict=True):
        plain = plain_ids(hf_tokenizer, text)
        kept = np.delete(layout.input_ids, layout.pooled).tolist()
        assert kept == [1, *plain[: len(kept) - 1]]
        assert {layout.input_ids[position] for position in layout.pooled} == {2}
        whole = 1 + len(plain) + max(-(-len(plain) // size), 1)
        assert len(layout) == whole or len(layout) >= max_length - (overflow == "budget")
        # Each landmark but the last closes a whole chunk.
        assert set(np.diff([0, *layout.pooled])[:-1]) <= {size + 1}


@given(texts=st.lists(TEXT, min_size=1, max_size=4), max_length=LENGTHS, overflow=OVERFLOWS)
@settings(max_examples=100, deadline=None)
def test_sentences_are_tokenized_alone(tiny_tokenizer_folder, texts, max_length, overflow):
    hf_tokenizer = loaded(tiny_tokenizer_folder)
    tokenizer = LandmarkTokenizer(hf_tokenizer, "sentence", max_length, overflow, sentence_splitter=str.splitlines)
    for text, layout in zip(texts, tokenizer.layouts(texts, with_spans=True), strict=True):
        sentences, rest = [], text
        for line in text.splitlines():
            if line.strip():
                end = rest.index(line.strip()) + len(line.strip())
                sentences.append(rest[:end])
                rest = rest[end:]
        sentences = [*sentences[:-1], sentences[-1] + rest] if sentences else [text]
        whole = [1]
        for ids in [plain_ids(hf_tokenizer, sentence) for sentence in sentences]:
            whole += [*ids, 2] if ids else []
        whole = whole if len(whole) > 1 else [1, 2]
        if len(whole) <= max_length:
            assert layout.input_ids == whole
        else:
            assert layout.input_ids[:-1] == whole[: len(layout) - 1]
            assert len(layout) >= max_length - (overflow == "budget")
        assert [end for _, end in layout.spans] == sorted(end for _, end in layout.spans)


class Counting:
    """A tokenizer that counts how often it is asked, and how many texts it is asked for."""

    def __init__(self, tokenizer):
        self.tokenizer, self.calls = tokenizer, []

    def __getattr__(self, name):
        if name == "backend_tokenizer":
            return self
        if name in ("encode_batch", "encode_batch_fast"):
            return lambda texts, **options: self._counted(name, texts, options)
        owner = self.tokenizer if hasattr(self.tokenizer, name) else self.tokenizer.backend_tokenizer
        return getattr(owner, name)

    def _counted(self, name, texts, options):
        self.calls.append(len(texts))
        return getattr(self.tokenizer.backend_tokenizer, name)(texts, **options)


@pytest.mark.parametrize("granularity", [(4, 8, 16), "sentence"])
def test_a_text_is_tokenized_once_for_all_granularities(tiny_tokenizer, texts_of, granularity):
    tiny_tokenizer.backend_tokenizer.encode_special_tokens = True
    counting = Counting(tiny_tokenizer)
    tokenizer = LandmarkTokenizer(counting, granularity, 20_000)
    texts = [*texts_of([9000, 3]), "One. Two.", ""]
    tokenized = tokenizer.tokenize(texts)
    for max_length in (128, 512, 20_000):
        for size in (4, 8, 16) if granularity != "sentence" else (None,):
            laid_out = tokenizer.lay_out(tokenized, granularity=size, max_length=max_length)
            assert laid_out == LandmarkTokenizer(tiny_tokenizer, size or "sentence", max_length).layouts(texts)
    assert counting.calls == [4 if granularity != "sentence" else 5]
