"""Every tokenizer in use: real ones, ones that lack or share special tokens, and ones that are written in Python."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer, SpecialTokens
from lmk_core.layouts import SpecialTokensError
from lmk_core.pooling import KINDS

MMBERT = {"cls_token": "<bos>", "sep_token": "<eos>"}
SPECIAL = "[SEP] the </s> <s>[CLS] <eos><bos> [PAD]<pad> [MASK] <mask> <unk> "


def without_sep(tokenizer):
    tokenizer.sep_token, tokenizer.eos_token = None, "[MASK]"
    return tokenizer


def without_cls(tokenizer):
    tokenizer.cls_token = None
    return tokenizer


def pad_is_eos(tokenizer):
    tokenizer.eos_token = tokenizer.pad_token = "[SEP]"
    return tokenizer


def left_sided(tokenizer):
    tokenizer.padding_side = tokenizer.truncation_side = "left"
    return tokenizer


def in_python(tokenizer):
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer()


# What to make of the tiny tokenizer, and the special tokens that it must come to.
MADE = {
    "without_sep": (without_sep, SpecialTokens(first=1, landmark=3, pad=0)),
    "without_cls": (without_cls, SpecialTokens(first=None, landmark=2, pad=0)),
    "pad_is_eos": (pad_is_eos, SpecialTokens(first=1, landmark=2, pad=2)),
    "left_sided": (left_sided, SpecialTokens(first=1, landmark=2, pad=0)),
    "in_python": (in_python, SpecialTokens(first=None, landmark=1, pad=0)),
}
REAL = {
    "modernbert-base": ({}, SpecialTokens(first=50281, landmark=50282, pad=50283)),
    "bert-base-uncased": ({}, SpecialTokens(first=101, landmark=102, pad=0)),  # gte-en-mlm-base
    "xlm-roberta-base": ({}, SpecialTokens(first=0, landmark=2, pad=1, between=2)),  # gte-multilingual-base
    "gemma2": (MMBERT, SpecialTokens(first=2, landmark=1, pad=0)),  # mmBERT-base
}


@pytest.fixture(scope="module", params=[*MADE, *REAL])
def case(request, tiny_tokenizer_folder):
    """(tokenizer, its special tokens). The tests that take it change nothing of it."""
    from transformers import AutoTokenizer

    if request.param in MADE:
        change, tokens = MADE[request.param]
        return change(AutoTokenizer.from_pretrained(tiny_tokenizer_folder)), tokens
    options, tokens = REAL[request.param]
    return request.getfixturevalue("real_tokenizer")(request.param, **options), tokens


def text_of(tokenizer, num_tokens):
    """A text of exactly so many tokens."""
    for text in ("the" + " the" * (num_tokens - 1) if num_tokens else "", "a" * num_tokens):
        if len(plain_ids(tokenizer, text)) == num_tokens:
            return text
    raise AssertionError(num_tokens)


def plain_ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]


def expected(ids, tokens, granularity, max_length, overflow):
    """One token after the other: the ids and the pooled positions."""
    head = [] if tokens.first is None else [tokens.first]

    def insert(ids):
        out, pooled = list(head), []
        for start in range(0, max(len(ids), 1), granularity):
            out += [*ids[start : start + granularity], tokens.landmark]
            pooled.append(len(out) - 1)
        return out, pooled

    if overflow == "budget":
        size = min(len(ids), max_length)
        while len(insert(ids[:size])[0]) > max_length:
            size -= 1
        return insert(ids[:size])
    out, pooled = insert(ids)
    out, pooled = out[:max_length], [position for position in pooled if position < max_length]
    if not pooled:
        out[-1], pooled = tokens.landmark, [len(out) - 1]
    return out, pooled


def test_special_tokens_come_from_the_tokenizer(case):
    tokenizer, tokens = case
    assert LandmarkTokenizer(tokenizer).tokens == tokens


@pytest.mark.parametrize("overflow", ["cut", "budget"])
def test_texts_of_every_length(case, overflow):
    tokenizer, tokens = case
    granularity, max_length = 8, 40
    counts = [0, 1, 7, 8, 9, 16, 17, *range(max_length - 8, max_length + 3), 500]
    texts = [text_of(tokenizer, count) for count in counts]
    layouts = LandmarkTokenizer(tokenizer, granularity, max_length, overflow).layouts(texts)
    for text, count, layout in zip(texts, counts, layouts, strict=True):
        ids = plain_ids(tokenizer, text)
        assert len(ids) == count
        assert (layout.input_ids, layout.pooled) == expected(ids, tokens, granularity, max_length, overflow)


@pytest.mark.parametrize("overflow", ["cut", "budget"])
def test_a_text_of_100_000_tokens(case, overflow):
    tokenizer, tokens = case
    text = text_of(tokenizer, 100_000)
    pooling = LandmarkTokenizer(tokenizer, 128, 200_000, overflow)
    tokenized = pooling.tokenize([text, "", text])
    head = 0 if tokens.first is None else 1
    for max_length in (8192, 200_000):
        layouts = pooling.lay_out(tokenized, max_length=max_length)
        whole = head + 100_000 + 782
        assert layouts.lengths.tolist() == [min(max_length, whole), head + 1, min(max_length, whole)]
        room = min(max_length, whole) - head
        counts = 782 if room == whole - head else room // 129 + (overflow == "budget")
        assert np.diff(layouts.pooled_bounds).tolist() == [counts, 1, counts]
        assert (layouts.ids[: layouts.bounds[1]][layouts[0].pooled] == tokens.landmark).all()
        assert layouts[0] == layouts[2]


@pytest.mark.parametrize("kind", KINDS)
def test_characters_of_special_tokens_change_nothing_of_what_is_pooled(case, kind):
    tokenizer, tokens = case
    if kind == "multi_cls" and tokens.first is None:
        with pytest.raises(ValueError, match="needs a tokenizer with a CLS or BOS"):
            PoolingTokenizer(tokenizer, PoolingConfig(kind))
        return
    pooling = PoolingTokenizer(tokenizer, PoolingConfig(kind), 64)
    texts = [SPECIAL, SPECIAL * 30]
    same = [text_of(tokenizer, len(plain_ids(tokenizer, text))) for text in texts]
    layouts, ordinary = pooling.layouts(texts), pooling.layouts(same)
    assert [layout.pooled for layout in layouts] == [layout.pooled for layout in ordinary]
    assert layouts.lengths.tolist() == ordinary.lengths.tolist()
    if kind == "landmark" and tokens.landmark not in plain_ids(tokenizer, SPECIAL):
        # Not so for XLM-R, whose vocabulary holds "</s>" as a piece of text.
        ids = np.array(layouts[1].input_ids)
        assert np.flatnonzero(ids == tokens.landmark).tolist() == layouts[1].pooled
    batch = pooling.pad(layouts)
    for row, layout in enumerate(layouts):
        assert batch["pooling_mask"][row].nonzero().flatten().tolist() == layout.pooled
        assert batch["attention_mask"][row].tolist() == [1] * len(layout) + [0] * (64 - len(layout))


def test_decode_shows_where_the_landmarks_stand(case):
    tokenizer, tokens = case
    pooling = LandmarkTokenizer(tokenizer, 4, 64)
    text = "the river and the house of stone"
    (layout,) = pooling.layouts([text])
    landmark = tokenizer.convert_ids_to_tokens(tokens.landmark)
    *chunks, rest = pooling.decode(layout).split(landmark)
    assert len(chunks) == len(layout.pooled) > 1
    assert not rest
    head = 0 if tokens.first is None else 1
    starts = [head, *[position + 1 for position in layout.pooled[:-1]]]
    for chunk, start, end in zip(chunks[1:], starts[1:], layout.pooled[1:], strict=True):
        assert chunk.strip() == tokenizer.decode(layout.input_ids[start:end]).strip()
    first = tokenizer.convert_ids_to_tokens(tokens.first) if head else ""
    assert chunks[0].startswith(first)
    assert "".join(chunks)[len(first) :].replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("name", ["xlm-roberta-base", "gemma2"])
def test_sep_can_be_set_afterwards_and_eos_serves(real_tokenizer, name):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(real_tokenizer(name).name_or_path)
    tokenizer.sep_token = tokenizer.cls_token = None
    plain = LandmarkTokenizer(tokenizer, 8, 64)
    _, tokens = REAL[name]
    assert (plain.tokens.first, plain.tokens.landmark) == (tokens.first, tokens.landmark)
    tokenizer.sep_token = "<mask>"
    changed = LandmarkTokenizer(tokenizer, 8, 64)
    assert changed.tokens.landmark == tokenizer.mask_token_id
    texts = ["the river " * 20]
    ids = [
        token if token != tokens.landmark else changed.tokens.landmark for token in plain.layouts(texts)[0].input_ids
    ]
    assert changed.layouts(texts)[0].input_ids == ids


def test_threads_do_not_disturb_each_other(tiny_tokenizer):
    texts = [["[SEP] the river [SEP]"] * (1 + number % 7) for number in range(200)]
    tokenizer = LandmarkTokenizer(tiny_tokenizer, 8, 64)
    expected = [tokenizer.layouts(part) for part in texts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            assert list(pool.map(tokenizer.layouts, texts)) == expected


def test_a_special_token_that_is_not_in_the_vocabulary_is_refused(tiny_tokenizer):
    tiny_tokenizer.sep_token = "[LANDMARK]"
    with pytest.raises(SpecialTokensError, match=r"sep_token: '\[LANDMARK\]' is not in its vocabulary"):
        LandmarkTokenizer(tiny_tokenizer)
    tiny_tokenizer.add_special_tokens({"sep_token": "[LANDMARK]"})
    assert LandmarkTokenizer(tiny_tokenizer).tokens.landmark == len(tiny_tokenizer) - 1


def test_a_tokenizer_in_python_has_no_spans():
    with pytest.raises(ValueError, match="ByT5Tokenizer' is written in Python and does not know the characters"):
        LandmarkTokenizer(in_python(None)).layouts(["a"], with_spans=True)


def test_wordpiece_in_python_equals_the_fast_one(real_tokenizer):
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    fast = real_tokenizer("bert-base-uncased")
    slow = BertTokenizerLegacy(f"{fast.name_or_path}/vocab.txt")
    texts = ["", "The rivers, Mr. Stone!", "Ein kürzerer Text über Häuser.", "unbelievable " * 90]
    for kind in KINDS:
        layouts = PoolingTokenizer(slow, PoolingConfig(kind), 64).layouts(texts)
        assert layouts == PoolingTokenizer(fast, PoolingConfig(kind), 64).layouts(texts)
