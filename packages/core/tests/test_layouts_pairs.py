"""Two texts that become one vector: cut as transformers cuts them, and the SEP between them is no text."""

from __future__ import annotations

import pytest

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer
from lmk_core.texts.reading import checked_texts_and_pairs

PLAIN = ["cls", "mean", "mean_at_k", "latent_attention"]


@pytest.fixture
def pairs(texts_of):
    counts = [(0, 0), (0, 3), (3, 0), (5, 9), (9, 5), (40, 2), (2, 40), (60, 60), (60, 61)]
    firsts, seconds = texts_of([count for count, _ in counts]), texts_of([count for _, count in counts], 1)
    return list(zip(firsts, seconds, strict=True))


@pytest.mark.parametrize("name", ["modernbert-base", "bert-base-uncased", "xlm-roberta-base"])
def test_plain_kinds_are_the_ordinary_call(real_tokenizer, pairs, name):
    tokenizer = real_tokenizer(name)
    between = 2 if name == "xlm-roberta-base" else 1
    texts = [*pairs, "no pair"]
    for max_length in (*range(between + 2, 12), 32, 33, 512):
        ordinary = tokenizer(pairs, truncation=True, max_length=max_length)["input_ids"]
        ordinary += tokenizer(["no pair"], truncation=True, max_length=max_length)["input_ids"]
        for kind in PLAIN:
            pooling = PoolingTokenizer(tokenizer, PoolingConfig(kind, k=3 if kind == "mean_at_k" else None), max_length)
            layouts = pooling.layouts(texts)
            assert [layout.input_ids for layout in layouts] == ordinary
            for text, layout in zip(texts, layouts, strict=True):
                everything = set(range(len(layout)))
                if isinstance(text, tuple):
                    first = layout.input_ids.index(pooling.tokens.landmark)
                    everything -= set(range(first, first + between))
                step = {"cls": 10_000, "mean_at_k": 3}.get(kind, 1)
                assert layout.pooled == sorted(everything & set(range(0, len(layout), step)))


def test_shortest_lengths_hold_what_they_can(real_tokenizer, pairs):
    pooling = PoolingTokenizer(real_tokenizer("xlm-roberta-base"), PoolingConfig("mean"))
    for max_length in (2, 3):
        for layout in pooling.layouts(pairs, max_length=max_length):
            assert layout.input_ids == [0, 2, 2][:max_length]
            assert layout.pooled == [0, max_length - 1]


def test_a_chunk_does_not_reach_from_one_text_into_the_other(tiny_tokenizer, pairs):
    def ids(text):
        return tiny_tokenizer(text, add_special_tokens=False)["input_ids"]

    def chunks(text):
        own = ids(text)
        return [own[start : start + 8] for start in range(0, len(own), 8)]

    tokenizer = LandmarkTokenizer(tiny_tokenizer, 8, 512)
    for (first, second), layout in zip(pairs, tokenizer.layouts(pairs), strict=True):
        every = [*chunks(first), *chunks(second)] or [[]]
        assert layout.input_ids == [1, *[token for chunk in every for token in [*chunk, 2]]]
        assert len(layout.pooled) == len(every)
        assert all(layout.input_ids[position] == 2 for position in layout.pooled)
    multi = PoolingTokenizer(tiny_tokenizer, PoolingConfig("multi_cls", every=8), 512)
    for (first, second), layout in zip(pairs, multi.layouts(pairs), strict=True):
        every = [*chunks(first), *chunks(second)] or [[]]
        assert layout.input_ids == [*[token for chunk in every for token in [1, *chunk]], 2]
        assert [layout.input_ids[position] for position in layout.pooled] == [1] * len(every)


@pytest.mark.parametrize("overflow", ["cut", "budget"])
def test_landmarks_of_pairs_are_cut_at_the_end(tiny_tokenizer, pairs, overflow):
    whole = LandmarkTokenizer(tiny_tokenizer, 8, 512).layouts(pairs)
    for max_length in (2, 5, 9, 10, 11, 30, 64):
        for full, layout in zip(
            whole, LandmarkTokenizer(tiny_tokenizer, 8, max_length, overflow).layouts(pairs), strict=True
        ):
            assert len(layout) <= max_length
            assert layout.input_ids[:-1] == full.input_ids[: len(layout) - 1]
            regular = [position for position in full.pooled if position < max_length]
            if overflow == "cut":
                assert len(layout) == min(max_length, len(full))
                assert layout.pooled == (regular or [max_length - 1])
            else:
                assert layout.pooled[-1] == len(layout) - 1


def test_sentences_spans_prompts_and_selections_of_pairs(tiny_tokenizer):
    pair = ("The river. The house.", "A stone. Light!")
    tokenizer = LandmarkTokenizer(tiny_tokenizer, "sentence", 64)
    (layout, single) = tokenizer.layouts([pair, "The river. A"], with_spans=True)
    both = pair[0] + pair[1]
    sentences = ["The river.", " The house.", "A stone.", " Light!"]
    assert [both[start:end] for start, end in layout.spans] == sentences
    assert len(single.pooled) == 2
    alone = tiny_tokenizer(sentences, add_special_tokens=False)["input_ids"]
    assert layout.input_ids == [1, *[token for ids in alone for token in [*ids, 2]]]

    tokenizer = LandmarkTokenizer(tiny_tokenizer, 50, 64)
    (layout,) = tokenizer.layouts([pair], with_spans=True)
    assert [both[start:end] for start, end in layout.spans] == list(pair)
    (prompted,) = tokenizer.layouts([pair], prompt="query: ", with_spans=True)
    assert prompted.input_ids == tokenizer.layouts([("query: " + pair[0], pair[1])])[0].input_ids
    assert prompted.spans == layout.spans
    tokenized = tokenizer.tokenize([pair, "a", list(pair)])
    assert tokenizer.lay_out(tokenized.select([1, 2])) == tokenizer.layouts(["a", pair])
    size = len(tiny_tokenizer(pair[0], add_special_tokens=False)["input_ids"])
    assert tokenized.seconds.tolist() == [size, -1, size]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["a", ("a", "b", "c")], r"texts\[1\]: .* found a tuple of 3"),
        ([("a", None)], r"texts\[0\]: .* found a tuple of str and NoneType"),
        ([None], r"texts\[0\]: .* found NoneType"),
    ],
)
def test_what_is_no_pair_is_refused(texts, found):
    with pytest.raises(TypeError, match=found):
        checked_texts_and_pairs(texts)
