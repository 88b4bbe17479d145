"""Texts that were tokenized in several calls, put one behind the other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer
from lmk_core.texts import TokenizedTexts

LENGTHS = [0, 1, 7, 8, 9, 40, 3]


def assert_same(found: TokenizedTexts, expected: TokenizedTexts) -> None:
    for field in dataclasses.fields(TokenizedTexts):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        np.testing.assert_array_equal(one, other, err_msg=field.name)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None), field.name


@pytest.mark.parametrize("options", [{}, {"with_spans": True}, {"prompt": "a query:", "include_prompt": False}])
@pytest.mark.parametrize("granularity", [8, "sentence"])
def test_texts_of_several_calls_are_those_of_one(tiny_tokenizer, texts_of, granularity, options) -> None:
    tokenizer = LandmarkTokenizer(tiny_tokenizer, granularity, 64)
    texts = [f"{text}. And more" if text else text for text in texts_of(LENGTHS)]
    parts = [tokenizer.tokenize(some, **options) for some in (texts[:2], texts[2:3], [], texts[3:])]
    assert_same(TokenizedTexts.concatenate(parts), tokenizer.tokenize(texts, **options))
    whole = TokenizedTexts.concatenate(parts)
    assert_same(whole.select([1, 2]), tokenizer.tokenize(texts[1:3], **options))


def test_pairs_beside_plain_texts(tiny_tokenizer, texts_of) -> None:
    tokenizer = PoolingTokenizer(tiny_tokenizer, PoolingConfig("mean"), 64)
    plain, pairs = texts_of([3, 0]), [tuple(texts_of([4, 5]))]
    joined = TokenizedTexts.concatenate([tokenizer.tokenize(plain), tokenizer.tokenize(pairs)])
    expected = tokenizer.tokenize([*plain, *pairs])
    assert_same(joined, expected)
    prompted = tokenizer.tokenize(plain, prompt="a query:", include_prompt=False)
    joined = TokenizedTexts.concatenate([tokenizer.tokenize(plain), prompted])
    assert prompted.unpooled is not None
    assert joined.unpooled is not None
    assert joined.unpooled.tolist() == [0, 0, *prompted.unpooled]


def test_nothing_and_what_cannot_be_joined(tiny_tokenizer, texts_of) -> None:
    assert len(TokenizedTexts.concatenate([])) == 0
    texts = texts_of([3, 4])
    by_sentence = LandmarkTokenizer(tiny_tokenizer, "sentence", 64).tokenize(texts)
    whole = LandmarkTokenizer(tiny_tokenizer, 8, 64).tokenize(texts)
    with pytest.raises(ValueError, match="texts with sentences and texts without"):
        TokenizedTexts.concatenate([by_sentence, whole])
    spans = LandmarkTokenizer(tiny_tokenizer, 8, 64).tokenize(texts, with_spans=True)
    assert TokenizedTexts.concatenate([spans, whole]).offsets is None
