"""Prompts: a prefix that counts as text, and may be left out of the pooling as Sentence Transformers does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lmk_core import LandmarkTokenizer, PoolingConfig, PoolingTokenizer
from lmk_core.pooling import KINDS
from lmk_core.texts.reading import checked_prompts

PROMPT = "query about the river: "


def tokens_of(tokenizer, text):
    return len(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_length", [4, 20, 64])
def test_a_prompt_is_a_prefix(tiny_tokenizer, texts_of, kind, max_length):
    texts = texts_of([0, 1, 9, 100])
    tokenizer = PoolingTokenizer(tiny_tokenizer, PoolingConfig(kind), max_length)
    expected = tokenizer.layouts([PROMPT + text for text in texts])
    assert tokenizer.layouts(texts, prompt=PROMPT) == expected
    assert tokenizer.layouts(texts, prompt=[PROMPT] * 4) == expected
    batch = tokenizer(texts, prompt=PROMPT, include_prompt=False)
    assert torch.equal(batch["input_ids"], tokenizer.pad(expected)["input_ids"])
    for none in (None, "", ["", "", "", ""]):
        assert tokenizer.layouts(texts, prompt=none, include_prompt=False) == tokenizer.layouts(texts)
    mixed = tokenizer.layouts(texts, prompt=["", PROMPT, "", PROMPT], include_prompt=False)
    plain, left_out = tokenizer.layouts(texts), tokenizer.layouts(texts, prompt=PROMPT, include_prompt=False)
    assert mixed == [plain[0], left_out[1], plain[2], left_out[3]]


def test_what_is_left_out_of_landmarks(tiny_tokenizer, texts_of):
    (text,) = texts_of([30])
    prompt = PROMPT.strip()
    size = tokens_of(tiny_tokenizer, prompt)
    for granularity in (1, 2, 3, size - 1, size, size + 1, 50):
        tokenizer = LandmarkTokenizer(tiny_tokenizer, granularity, 512)
        (all_of_it,) = tokenizer.layouts([text], prompt=prompt)
        (layout,) = tokenizer.layouts([text], prompt=prompt, include_prompt=False)
        assert layout.input_ids == all_of_it.input_ids
        # Chunk i ends at token (i + 1) * granularity; the first ones hold nothing but the prompt.
        assert layout.pooled == all_of_it.pooled[size // granularity :]


def test_what_is_left_out_of_multi_cls_and_mean_at_k(tiny_tokenizer, texts_of):
    (text,) = texts_of([30])
    prompt = PROMPT.strip()
    size = tokens_of(tiny_tokenizer, prompt)
    for every in (1, 2, size - 1, size, size + 1):
        tokenizer = PoolingTokenizer(tiny_tokenizer, PoolingConfig("multi_cls", every=every), 512)
        (all_of_it,) = tokenizer.layouts([text], prompt=prompt)
        (layout,) = tokenizer.layouts([text], prompt=prompt, include_prompt=False)
        assert layout.pooled == all_of_it.pooled[-(-size // every) :]
        tokenizer = PoolingTokenizer(tiny_tokenizer, PoolingConfig("mean_at_k", k=every), 512)
        (layout,) = tokenizer.layouts([text], prompt=prompt, include_prompt=False)
        assert layout.pooled == [position for position in range(0, len(layout), every) if position > size]


@pytest.mark.parametrize("kind", KINDS)
def test_something_is_pooled_where_the_prompt_fills_all(tiny_tokenizer, kind):
    tokenizer = PoolingTokenizer(tiny_tokenizer, PoolingConfig(kind), 8)
    prompts = [PROMPT * 9, PROMPT.strip(), PROMPT * 9]
    layouts = tokenizer.layouts(["", "", "the house"], prompt=prompts, include_prompt=False)
    for layout, whole in zip(layouts, tokenizer.layouts(prompts), strict=True):
        assert layout.input_ids == whole.input_ids
        # Instead of CLS the first position behind the prompt is pooled; here that is SEP.
        assert layout.pooled == [len(layout) - 1 if kind == "cls" else whole.pooled[-1]]


def test_spans_are_those_of_the_text(tiny_tokenizer, texts_of):
    (text,) = texts_of([40])
    tokenizer = LandmarkTokenizer(tiny_tokenizer, 4, 512)
    prompt = PROMPT.strip()
    (layout,) = tokenizer.layouts([text], prompt=prompt, with_spans=True)
    assert "".join(text[start:end] for start, end in layout.spans) == text
    assert layout.spans[0] == (0, 0)
    assert layout.spans[-1][1] == len(text)
    (without,) = tokenizer.layouts([text], prompt=prompt, include_prompt=False, with_spans=True)
    assert without.spans == [span for span in layout.spans if span != (0, 0)]
    assert len(without.spans) == len(without.pooled) < len(layout.pooled)


def test_tokenized_with_prompts_laid_out_later(tiny_tokenizer, texts_of):
    texts = texts_of([9, 0, 30])
    tokenizer = LandmarkTokenizer(tiny_tokenizer, (4, 8), 64)
    tokenized = tokenizer.tokenize(texts, prompt=PROMPT, include_prompt=False)
    for size in (4, 8):
        expected = tokenizer.layouts(texts, granularity=size, prompt=PROMPT, include_prompt=False)
        assert tokenizer.lay_out(tokenized, granularity=size) == expected
        assert tokenizer.lay_out(tokenized.select([2, 0]), granularity=size) == expected.select([2, 0])


def test_sentences_with_a_prompt(tiny_tokenizer):
    tokenizer = LandmarkTokenizer(tiny_tokenizer, "sentence", 64)
    texts = ["The river. The house of stone."]
    expected = tokenizer.layouts(["A question. " + texts[0]])
    assert tokenizer.layouts(texts, prompt="A question. ") == expected
    (layout,) = tokenizer.layouts(texts, prompt="A question. ", include_prompt=False, with_spans=True)
    assert layout.pooled == expected[0].pooled[1:]
    assert [texts[0][start:end] for start, end in layout.spans] == ["The river.", " The house of stone."]


def test_prompts_that_are_refused(tiny_tokenizer):
    tokenizer = LandmarkTokenizer(tiny_tokenizer)
    with pytest.raises(ValueError, match="prompt: 2 prompts for 1 texts"):
        tokenizer.layouts(["a"], prompt=["b", "c"])
    with pytest.raises(TypeError, match=r"prompt\[1\]: expected a string, found NoneType"):
        checked_prompts(["c", None], 2)


@pytest.mark.parametrize("max_length", [6, 9, 64])
@pytest.mark.parametrize("kind", ["cls", "mean"])
def test_the_same_positions_as_sentence_transformers(tiny_model_folder, tiny_tokenizer, texts_of, kind, max_length):
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    texts = texts_of([1, 9, 100])
    encoder = Transformer(str(tiny_model_folder), max_seq_length=max_length)
    pooling = Pooling(max_length, kind, include_prompt=False)
    layouts = PoolingTokenizer(tiny_tokenizer, PoolingConfig(kind), max_length)
    for prompt in ("query: ", "query about the:"):
        features = encoder.preprocess(texts, prompt=prompt)
        mask = features["attention_mask"]
        found = layouts.layouts(texts, prompt=prompt, include_prompt=False)
        assert [layout.input_ids for layout in found] == [
            ids[: int(length)].tolist() for ids, length in zip(features["input_ids"], mask.sum(1), strict=True)
        ]
        # Where each hidden state names its own position, a vector says which positions were pooled.
        features["token_embeddings"] = torch.eye(max_length)[: mask.shape[1]].expand(len(texts), -1, -1)
        for vector, layout in zip(pooling(features)["sentence_embedding"], found, strict=True):
            assert vector.nonzero().flatten().tolist() == layout.pooled
            np.testing.assert_allclose(vector[layout.pooled], 1 / len(layout.pooled), rtol=1e-6)
