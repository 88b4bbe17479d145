"""Many layouts in flat arrays: the same as one by one, chosen, joined, sent to workers, padded and packed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from lmk_core import LandmarkTokenizer, Layout, Layouts, PoolingConfig, PoolingTokenizer
from lmk_core.pooling import KINDS

LENGTHS = [0, 1, 7, 8, 9, 40, 3, 200]
FLAT = ("ids", "bounds", "pooled", "pooled_bounds")


@pytest.fixture
def layouts(tiny_tokenizer, texts_of) -> Layouts:
    return LandmarkTokenizer(tiny_tokenizer, 8, 64).layouts(texts_of(LENGTHS), with_spans=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_length", [2, 3, 16, 512])
def test_many_texts_are_laid_out_as_one_by_one(tiny_tokenizer, texts_of, kind, max_length):
    texts = texts_of(LENGTHS)
    tokenizer = PoolingTokenizer(tiny_tokenizer, PoolingConfig(kind), max_length)
    layouts = tokenizer.layouts(texts)
    assert layouts == [tokenizer.layouts([text])[0] for text in texts]
    assert layouts.lengths.tolist() == [len(layout) for layout in layouts]
    assert layouts.lengths.max() <= max_length
    assert len(tokenizer.layouts([])) == 0


def test_a_sequence_of_layouts(layouts):
    assert len(layouts) == len(LENGTHS)
    assert isinstance(layouts[0], Layout)
    assert layouts[-1] == list(layouts)[-1]
    assert layouts[2:7:2] == [layouts[2], layouts[4], layouts[6]]
    assert layouts != list(layouts)[:-1]
    assert layouts != [*list(layouts)[:-1], layouts[0]]
    for bad in (8, -9):
        with pytest.raises(IndexError, match=f"index {bad} is out of range for 8 texts"):
            layouts[bad]


def test_select_concatenate_and_list_round_trip(layouts):
    chosen = layouts.select([7, 0, 0, -3])
    assert chosen == [layouts[7], layouts[0], layouts[0], layouts[5]]
    assert chosen[0].spans == layouts[7].spans
    assert layouts.select([]) == []
    joined = Layouts.concatenate([chosen, layouts, layouts.select([])])
    assert joined == [*chosen, *layouts]
    assert Layouts.concatenate([]) == []
    again = Layouts.from_list(list(layouts))
    for name in (*FLAT, "spans"):
        np.testing.assert_array_equal(getattr(again, name), getattr(layouts, name))
        assert getattr(again, name).dtype == getattr(layouts, name).dtype
    assert pickle.loads(pickle.dumps(layouts)) == layouts


def test_pad_and_pack_hold_the_same(tiny_tokenizer, texts_of, layouts):
    tokenizer = LandmarkTokenizer(tiny_tokenizer, 8, 64)
    padded, packed = tokenizer.pad(layouts), tokenizer.pack(layouts)
    for row, layout in enumerate(layouts):
        length = len(layout)
        assert padded["input_ids"][row, :length].tolist() == layout.input_ids
        assert (padded["input_ids"][row, length:] == tokenizer.tokens.pad).all()
        assert padded["attention_mask"][row].tolist() == [1] * length + [0] * (64 - length)
        assert padded["pooling_mask"][row].nonzero().flatten().tolist() == layout.pooled
        start, stop = packed["cu_seqlens"][row : row + 2].tolist()
        assert packed["input_ids"][start:stop].tolist() == layout.input_ids
        own = packed["pooled"][packed["pooled_texts"] == row]
        assert (own - start).tolist() == layout.pooled
    assert packed["max_seqlen"] == 64
    assert {name: value.dtype for name, value in packed.items() if name != "max_seqlen"} == {
        "input_ids": torch.int64,
        "cu_seqlens": torch.int32,
        "pooled": torch.int64,
        "pooled_texts": torch.int64,
    }
    one_by_one = tokenizer.pad(list(layouts))
    assert all(torch.equal(one_by_one[name], padded[name]) for name in padded)
    with pytest.raises(ValueError, match="cannot pack an empty list"):
        tokenizer.pack([])


def test_tokenized_once_laid_out_at_every_granularity(tiny_tokenizer, texts_of):
    texts = texts_of(LENGTHS)
    tokenizer = LandmarkTokenizer(tiny_tokenizer, (4, 8, 16), 64)
    tokenized = pickle.loads(pickle.dumps(tokenizer.tokenize(texts, with_spans=True)))
    plain = tiny_tokenizer(texts, add_special_tokens=False)["input_ids"]
    assert [ids.tolist() for ids in (tokenized[row] for row in range(len(texts)))] == [ids[:64] for ids in plain]
    for size in (4, 8, 16, [4, 8, 16, 4, 8, 16, 4, 8]):
        for max_length in (2, 30, 64):
            again = tokenizer.lay_out(tokenized, granularity=size, max_length=max_length)
            assert again == tokenizer.layouts(texts, granularity=size, max_length=max_length, with_spans=True)
            chosen = [7, 1, 1]
            sizes = size if isinstance(size, int) else [size[row] for row in chosen]
            part = tokenizer.lay_out(tokenized.select(chosen), granularity=sizes, max_length=max_length)
            assert part == again.select(chosen)
    with pytest.raises(ValueError, match="max_length: 65 is more than the 64 that the texts were tokenized for"):
        tokenizer.lay_out(tokenized, max_length=65)


def test_sentences_and_sizes_do_not_mix(tiny_tokenizer):
    texts = ["One. Two, three.", "", "Four. Five. Six."]
    sentences = LandmarkTokenizer(tiny_tokenizer, "sentence", 64)
    tokenized = sentences.tokenize(texts)
    assert tokenized.piece_bounds.tolist() == [0, 2, 3, 6]
    assert sentences.lay_out(tokenized.select([2, 0, 1])) == sentences.layouts([texts[2], texts[0], texts[1]])
    with pytest.raises(ValueError, match="tokenized by sentence, and this granularity needs them tokenized whole"):
        sentences.lay_out(tokenized, granularity=8)
    with pytest.raises(ValueError, match="tokenized whole, and this granularity needs them tokenized by sentence"):
        sentences.lay_out(sentences.tokenize(texts, by_sentence=False))
    assert sentences.layouts(texts, granularity=8) == LandmarkTokenizer(tiny_tokenizer, 8, 64).layouts(texts)
