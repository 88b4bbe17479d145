"""Saved models with real tokenizers, and with those that pad on the left, or with EOS, or not at all."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel, XLMRobertaConfig, XLMRobertaModel

from lmk_core import Embedder, PoolingConfig, PoolingTokenizer
from lmk_core.encoders import PooledEncoder

SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
ENCODERS = {
    "modernbert-base": (ModernBertModel, ModernBertConfig, {}),
    "bert-base-uncased": (BertModel, BertConfig, {"max_position_embeddings": 64}),
    "xlm-roberta-base": (XLMRobertaModel, XLMRobertaConfig, {"max_position_embeddings": 66, "pad_token_id": 1}),
    "gemma2": (ModernBertModel, ModernBertConfig, {}),
}
GEMMA = {"cls_token": "<bos>", "sep_token": "<eos>"}
SPECIAL = "the [SEP] river [CLS] [PAD] </s> <s> <eos> <bos> [MASK] <mask> stone"


def embedder_for(tokenizer, kind, encoder="modernbert-base", max_length=40):
    model, config, own = ENCODERS[encoder]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        values = {"initializer_range": 0.3, "pad_token_id": tokenizer.pad_token_id or 0, **own}
        module = model(config(vocab_size=len(tokenizer), **SMALL, **values))
    pooling = PoolingConfig(kind)
    return Embedder(PooledEncoder(module, pooling).eval(), PoolingTokenizer(tokenizer, pooling, max_length))


@pytest.mark.parametrize("name", ENCODERS)
def test_real_tokenizers_open_without_a_flag(real_tokenizer, tmp_path, name):
    """Sentence Transformers' own modules and its ordinary call of the tokenizer give the same vectors."""
    texts = [
        "",
        "a",
        SPECIAL,
        f"{SPECIAL} " * 9,
        "Ein kürzerer Text über Häuser. ",
        " zwei  Räume\n",
        "漢字かな混じり文。",
    ]
    tokenizer = real_tokenizer(name, **(GEMMA if name == "gemma2" else {}))
    embedder = embedder_for(tokenizer, "mean", name)  # of all ids, so that none goes unnoticed
    folder = embedder.save_pretrained(tmp_path / "model")
    assert not (folder / "modeling_lmk.py").exists()
    model = SentenceTransformer(str(folder))
    assert model.max_seq_length == 40
    np.testing.assert_allclose(model.encode(texts), embedder.encode(texts), atol=1e-5)


def padding_left(tokenizer):
    tokenizer.padding_side = tokenizer.truncation_side = "left"


def padding_with_eos(tokenizer):
    tokenizer.eos_token = tokenizer.pad_token = "[SEP]"


def without_padding(tokenizer):
    tokenizer.pad_token = None


def without_cls(tokenizer):
    tokenizer.cls_token = None


def with_eos_for_sep(tokenizer):
    tokenizer.sep_token, tokenizer.eos_token = None, "[MASK]"


@pytest.mark.parametrize("kind", ["mean", "landmark"])
@pytest.mark.parametrize("change", [padding_left, padding_with_eos, without_padding, without_cls, with_eos_for_sep])
def test_unusual_tokenizers(tiny_tokenizer, texts_of, tmp_path, kind, change):
    """Also with absolute positions, which padding on the left would move."""
    change(tiny_tokenizer)
    texts = [*texts_of([1, 12, 38, 200]), SPECIAL]
    for encoder in ("bert-base-uncased", "modernbert-base"):
        embedder = embedder_for(tiny_tokenizer, kind, encoder)
        folder = embedder.save_pretrained(tmp_path / encoder)
        model = SentenceTransformer(str(folder), trust_remote_code=kind == "landmark")
        np.testing.assert_allclose(model.encode(texts), embedder.encode(texts), atol=1e-5)


def test_a_long_text_ends_as_it_should(tiny_tokenizer, texts_of, tmp_path):
    """What is cut still ends in SEP, or for landmarks where the layout cuts."""
    (text,) = texts_of([300])
    for kind in ("cls", "landmark"):
        embedder = embedder_for(tiny_tokenizer, kind)
        model = SentenceTransformer(str(embedder.save_pretrained(tmp_path / kind)), trust_remote_code=True)
        ids = model.preprocess([text])["input_ids"][0].tolist()
        assert ids == embedder.tokenizer.layouts([text])[0].input_ids
        assert len(ids) == 40
    assert ids[33] == tiny_tokenizer.sep_token_id


def test_a_tokenizer_that_must_not_change_for_landmarks(tiny_tokenizer, tmp_path):
    tiny_tokenizer.cls_token = None
    landmark = embedder_for(tiny_tokenizer, "landmark").save_pretrained(tmp_path / "landmark")
    mean = embedder_for(tiny_tokenizer, "mean").save_pretrained(tmp_path / "mean")
    steps = [json.loads((folder / "tokenizer.json").read_text())["post_processor"] for folder in (landmark, mean)]
    assert steps[0] == json.loads(tiny_tokenizer.backend_tokenizer.to_str())["post_processor"]
    assert [part.get("SpecialToken", {}).get("id") for part in steps[1]["single"]] == [None, "[SEP]"]
