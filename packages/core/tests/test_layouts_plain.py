"""The baselines' layouts, tokenizers that lack or share special tokens, texts that hold them, and batches."""

from __future__ import annotations

import pytest
import torch

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer, SpecialTokens
from lmk_core.layouts import SpecialTokensError
from lmk_core.pooling import KINDS

CLS, SEP, PAD = 1, 2, 0


def tokenizer_for(tokenizer, kind, max_length=512, **options):
    return PoolingTokenizer(tokenizer, PoolingConfig(kind, **options), max_length)


@pytest.mark.parametrize("kind", ["cls", "mean", "mean_at_k", "latent_attention"])
@pytest.mark.parametrize("max_length", [2, 3, 16, 512])
def test_baselines_are_the_ordinary_tokenizer_call(tiny_tokenizer, texts_of, kind, max_length):
    texts = ["", *texts_of([1, 5, 14, 200])]
    plain = tiny_tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
    layouts = tokenizer_for(tiny_tokenizer, kind, max_length).layouts(texts)
    assert [layout.input_ids for layout in layouts] == plain
    for layout in layouts:
        positions = {"cls": [0], "mean_at_k": list(range(0, len(layout), 64))}
        assert layout.pooled == positions.get(kind, list(range(len(layout))))


def test_mean_at_k_pools_every_kth_position_from_zero(tiny_tokenizer, texts_of):
    (layout,) = tokenizer_for(tiny_tokenizer, "mean_at_k", 11, k=5).layouts(texts_of([60]))
    assert layout.pooled == [0, 5, 10]
    assert layout.input_ids[10] == SEP


def test_multi_cls(tiny_tokenizer, texts_of):
    (text,) = texts_of([100])
    ids = tiny_tokenizer(text, add_special_tokens=False)["input_ids"]
    tokenizer = tokenizer_for(tiny_tokenizer, "multi_cls", every=4)
    chunks = [ids[start : start + 4] for start in range(0, len(ids), 4)]
    everything = [token for chunk in chunks for token in [CLS, *chunk]]
    for max_length in (2, 5, 6, 7, 50, 512):
        (layout,) = tokenizer.layouts([text], max_length=max_length)
        assert layout.input_ids == [*everything[: max_length - 1], SEP]
        assert layout.pooled == list(range(0, len(layout) - 1, 5))
    assert tokenizer.layouts([""])[0].input_ids == [CLS, SEP]
    assert tokenizer.layouts([""])[0].pooled == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_a_text_are_ordinary_text(tiny_tokenizer, kind):
    text = "the [SEP] river [CLS][SEP] [PAD] </s> <s> stone [MASK]"
    tokenizer = tokenizer_for(tiny_tokenizer, kind)
    (layout,) = tokenizer.layouts([text])
    # Laid out as a text of as many ordinary tokens.
    own = len(tiny_tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])
    same = next(
        words
        for count in range(1, 200)
        for words in [" the" * count]
        if len(tiny_tokenizer(words, add_special_tokens=False)["input_ids"]) == own
    )
    (other,) = tokenizer.layouts([same])
    assert layout.pooled == other.pooled
    assert [token in (CLS, SEP, PAD) for token in layout.input_ids] == [
        token in (CLS, SEP, PAD) for token in other.input_ids
    ]
    decoded = tiny_tokenizer.decode([token for token in layout.input_ids if token > 4])
    assert decoded == text


def test_tokenizer_state_is_left_alone(tiny_tokenizer):
    before = tiny_tokenizer("a [SEP] b")["input_ids"]
    LandmarkTokenizer(tiny_tokenizer)(["a [SEP] b"])
    assert tiny_tokenizer("a [SEP] b")["input_ids"] == before


def test_pad_that_is_eos_hides_nothing(tiny_tokenizer, texts_of):
    texts = texts_of([90, 3])
    expected = LandmarkTokenizer(tiny_tokenizer, 32)(texts)
    tiny_tokenizer.eos_token = tiny_tokenizer.pad_token = "[SEP]"
    tokenizer = LandmarkTokenizer(tiny_tokenizer, 32)
    assert tokenizer.tokens == SpecialTokens(first=CLS, landmark=SEP, pad=SEP)
    batch = tokenizer(texts)
    assert torch.equal(batch["attention_mask"], expected["attention_mask"])
    assert torch.equal(batch["pooling_mask"], expected["pooling_mask"])
    assert (batch["input_ids"][batch["attention_mask"] == 0] == SEP).all()


def test_padding_is_on_the_right_whatever_the_tokenizer_says(tiny_tokenizer, texts_of):
    texts = texts_of([40, 3])
    expected = LandmarkTokenizer(tiny_tokenizer, 8)(texts)
    tiny_tokenizer.padding_side = tiny_tokenizer.truncation_side = "left"
    for name, tensor in LandmarkTokenizer(tiny_tokenizer, 8)(texts).items():
        assert torch.equal(tensor, expected[name])
    assert expected["attention_mask"][:, 0].tolist() == [1, 1]
    assert expected["attention_mask"][1, -1] == 0


def test_fallbacks_of_special_tokens(tiny_tokenizer):
    tiny_tokenizer.sep_token = None
    with pytest.raises(SpecialTokensError, match="neither a SEP nor an EOS"):
        LandmarkTokenizer(tiny_tokenizer)
    tiny_tokenizer.eos_token = "[MASK]"
    assert SpecialTokens.from_tokenizer(tiny_tokenizer) == SpecialTokens(CLS, 3, PAD)
    tiny_tokenizer.cls_token = None
    assert SpecialTokens.from_tokenizer(tiny_tokenizer).first is None
    (layout,) = LandmarkTokenizer(tiny_tokenizer, 512).layouts(["the river"])
    ids = tiny_tokenizer("the river", add_special_tokens=False)["input_ids"]
    assert layout.input_ids == [*ids, 3]
    with pytest.raises(ValueError, match="needs a tokenizer with a CLS or BOS"):
        tokenizer_for(tiny_tokenizer, "multi_cls")
    tiny_tokenizer.bos_token = "[CLS]"
    assert SpecialTokens.from_tokenizer(tiny_tokenizer).first == CLS
    tiny_tokenizer.pad_token = None
    assert SpecialTokens.from_tokenizer(tiny_tokenizer).pad == 3


def test_a_batch(tiny_tokenizer):
    batch = LandmarkTokenizer(tiny_tokenizer, 4, 512)(["", "the river of stone and light"])
    assert {name: tensor.dtype for name, tensor in batch.items()} == {
        "input_ids": torch.int64,
        "attention_mask": torch.int64,
        "pooling_mask": torch.bool,
    }
    assert batch["input_ids"][0].tolist()[:3] == [CLS, SEP, PAD]
    assert batch["attention_mask"].sum(1).tolist() == [2, batch["input_ids"].shape[1]]
    assert batch["pooling_mask"][0].nonzero().flatten().tolist() == [1]
    assert not (batch["pooling_mask"] & (batch["attention_mask"] == 0)).any()


def test_arguments_that_are_refused(tiny_tokenizer):
    tokenizer = LandmarkTokenizer(tiny_tokenizer)
    assert tokenizer.layouts([]) == []
    with pytest.raises(ValueError, match="empty list"):
        tokenizer([])
    with pytest.raises(TypeError, match="expected a list of strings, found one str"):
        tokenizer("a text")
    with pytest.raises(TypeError):
        tokenizer([None])
    for bad in (1, 0, -3):
        with pytest.raises(ValueError, match=f"max_length: {bad} is too short"):
            LandmarkTokenizer(tiny_tokenizer, max_length=bad)
        with pytest.raises(ValueError, match="too short"):
            tokenizer(["a"], max_length=bad)
    with pytest.raises(ValueError, match="'landmark' only"):
        tokenizer_for(tiny_tokenizer, "cls").layouts(["a"], granularity=32)
    with pytest.raises(ValueError, match="'landmark' only"):
        tokenizer_for(tiny_tokenizer, "mean").layouts(["a"], with_spans=True)


def test_half_a_surrogate_pair_does_not_stop_a_batch(tiny_tokenizer):
    broken, whole = LandmarkTokenizer(tiny_tokenizer).layouts(["the \ud83d river", "the river"])
    assert broken == LandmarkTokenizer(tiny_tokenizer).layouts(["the \ufffd river"])[0]
    assert whole == LandmarkTokenizer(tiny_tokenizer).layouts(["the river"])[0]
