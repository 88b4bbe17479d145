"""Saved models in Sentence Transformers: the same vectors as `Embedder`'s, for every kind, tokenizer and prompt."""

from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from lmk_core import Embedder, PoolingConfig, load_sentence_transformer

KINDS = {
    "cls": PoolingConfig("cls"),
    "multi_cls": PoolingConfig("multi_cls", every=8),
    "mean": PoolingConfig("mean"),
    "mean_at_k": PoolingConfig("mean_at_k", k=8),
    "latent_attention": PoolingConfig("latent_attention", num_latents=6, latent_heads=2),
    "fixed": PoolingConfig("landmark", granularity=8),
    "variable": PoolingConfig("landmark", granularity=(4, 8, 16), overflow="budget"),
    "sentence": PoolingConfig("landmark", granularity="sentence"),
}
every_kind = pytest.mark.parametrize("pooling", KINDS.values(), ids=KINDS)


@pytest.fixture
def texts(texts_of):
    special = [
        "the [SEP] river [CLS] [PAD] </s> <s> <eos> [MASK]",
        "[SEP]",
        "</s>",
        "  two  spaces\n and a line. End. ",
    ]
    return ["", *texts_of([1, 30, 120]), *special]


def needs_flag(pooling):
    return pooling.kind not in ("cls", "mean")


@every_kind
def test_the_same_vectors_in_sentence_transformers(tiny_model_folder, tmp_path, texts, pooling):
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    expected = embedder.encode(texts)
    folder = str(embedder.save_pretrained(tmp_path / "model"))
    model = SentenceTransformer(folder, trust_remote_code=needs_flag(pooling))
    assert model.max_seq_length == 60
    assert model.get_embedding_dimension() == 32
    np.testing.assert_allclose(model.encode(texts, batch_size=3), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(texts[2]), expected[2], atol=1e-5)
    np.testing.assert_allclose(load_sentence_transformer(folder).encode(texts), expected, atol=1e-5)
    # Saved by Sentence Transformers, opened by both.
    model.save_pretrained(str(tmp_path / "again"))
    again = SentenceTransformer(str(tmp_path / "again"), trust_remote_code=needs_flag(pooling))
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-5)
    np.testing.assert_allclose(Embedder.from_pretrained(tmp_path / "again").encode(texts), expected, atol=1e-5)
