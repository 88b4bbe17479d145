"""`Embedder`: the same vector alone and in a batch, every reading, modes, and landmarks' spans."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from lmk_core import Embedder, PoolingConfig, PoolingConfigError
from lmk_core.embedder import encoding
from lmk_core.embedder.encoding import text_windows

EVERY_KIND = [
    PoolingConfig("cls"),
    PoolingConfig("multi_cls", every=16),
    PoolingConfig("mean"),
    PoolingConfig("mean_at_k", k=8),
    PoolingConfig("latent_attention", num_latents=6),
    PoolingConfig("landmark", granularity=16),
    PoolingConfig("landmark", granularity=(8, 16, 32)),
    PoolingConfig("landmark", granularity=16, overflow="budget"),
    PoolingConfig("landmark", granularity="sentence"),
]


def mixed_texts(texts_of):
    lengths = [0, 1, 150, 90, 2, *[random.Random(1).randint(1, 60) for _ in range(59)]]
    return [text.replace("river", "river.") for text in texts_of(lengths, seed=3)]


@pytest.mark.parametrize("pooling", EVERY_KIND, ids=lambda pooling: str(pooling.to_dict()))
def test_alone_and_in_a_batch_agree(tiny_model_folder, texts_of, pooling):
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=128)
    texts = mixed_texts(texts_of)
    together = embedder.encode(texts, batch_tokens=100_000)
    assert together.shape == (64, 32)
    assert together.dtype == np.float32
    assert embedder.tokenizer(texts)["input_ids"].shape == (64, 128)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = np.concatenate([embedder.encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(embedder.encode(texts, batch_tokens=300), alone, atol=1e-5)
    with torch.no_grad():
        direct = embedder.module(**embedder.tokenizer(texts)).numpy()
    np.testing.assert_allclose(together, direct, atol=1e-5)
    # The texts are different, and so are their vectors.
    assert (together @ together.T - 2 * np.eye(64)).max() < 0.999


def test_many_texts_in_windows(tiny_model_folder, texts_of, monkeypatch):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark")
    texts = mixed_texts(texts_of)
    expected = embedder.encode(texts)
    monkeypatch.setattr(encoding, "_WINDOW_TEXTS", 7)
    monkeypatch.setattr(encoding, "_WINDOW_CHARACTERS", 500)
    order = np.arange(64)[::-1]
    assert len(list(text_windows(texts, order))) > 8
    assert [index for window in text_windows(texts, order) for index in window] == order.tolist()
    np.testing.assert_allclose(embedder.encode(texts), expected, atol=1e-5)


def test_landmarks_of_many_texts_in_windows(tiny_model_folder, texts_of, monkeypatch):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8)
    texts = mixed_texts(texts_of)
    expected = embedder.encode_landmarks(texts)
    monkeypatch.setattr(encoding, "_WINDOW_TEXTS", 7)
    laid_out, real = [], embedder.tokenizer.tokenize

    def tokenize(part, **options):
        laid_out.append(len(part))
        return real(part, **options)

    monkeypatch.setattr(embedder.tokenizer, "tokenize", tokenize)
    found = embedder.encode_landmarks(texts)
    assert laid_out == [7] * 9 + [1]
    assert [spans for _, spans in found] == [spans for _, spans in expected]
    for (vectors, _), (wanted, _) in zip(found, expected, strict=True):
        np.testing.assert_allclose(vectors, wanted, atol=1e-4)
    assert embedder.encode_landmarks([]) == []
    with pytest.raises(TypeError, match="expected a list of strings"):
        embedder.encode_landmarks("one text")


def test_no_text_and_one_string(tiny_model_folder, capfd):
    embedder = Embedder.from_pretrained(tiny_model_folder, granularity=8)
    assert embedder.pooling == PoolingConfig("landmark", granularity=8)
    assert embedder.encode([]).shape == (0, 32)
    assert embedder.encode([], show_progress=True).dtype == np.float32
    with pytest.raises(TypeError, match="expected a list of strings, found one str"):
        embedder.encode("a text")
    with pytest.raises(ValueError, match="too short"):
        embedder.encode(["a"], max_length=1)
    capfd.readouterr()
    embedder.encode(["a"])
    assert capfd.readouterr().err == ""
    embedder.encode(["a", "b"], show_progress=True)
    assert "2/2" in capfd.readouterr().err


def test_modes_are_restored_and_training_goes_on(tiny_model_folder, texts_of):
    embedder = Embedder.from_pretrained(tiny_model_folder, "latent_attention")
    module = embedder.module
    assert not any(part.training for part in module.modules())
    module.train()
    module.encoder.layers[0].eval()
    before = [part.training for part in module.modules()]
    embedder.encode(texts_of([5, 100]))
    assert [part.training for part in module.modules()] == before
    assert True in before
    assert False in before
    module(**embedder.tokenizer(texts_of([100, 5])))[:, 0].sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_readings_share_weights(tiny_model_folder, texts_of):
    texts = texts_of([100])
    base = Embedder.from_pretrained(tiny_model_folder, "landmark", (8, 32), max_length=100, overflow="budget")
    fine = base.with_granularity(32)
    assert fine.pooling == PoolingConfig("landmark", granularity=32, overflow="budget")
    assert fine.max_length == 100
    assert base.pooling.granularity == (8, 32)
    assert fine.module.encoder is base.module.encoder
    same = Embedder.from_pretrained(tiny_model_folder, fine.pooling, max_length=100)
    np.testing.assert_allclose(fine.encode(texts), same.encode(texts), atol=1e-6)
    assert np.abs(fine.encode(texts) - base.encode(texts)).max() > 1e-3
    assert base.with_pooling(PoolingConfig("mean")).pooling.kind == "mean"
    with pytest.raises(PoolingConfigError, match="does not apply"):
        base.with_pooling(PoolingConfig("mean")).with_granularity(8)
    latent = Embedder.from_pretrained(tiny_model_folder, "latent_attention")
    with pytest.raises(PoolingConfigError, match="lose its latents"):
        latent.with_pooling(PoolingConfig("mean"))
    with pytest.raises(PoolingConfigError, match="no trained latents"):
        base.with_pooling(PoolingConfig("latent_attention"))
    with torch.no_grad():
        next(base.module.encoder.parameters()).mul_(2)
    assert np.abs(fine.encode(texts) - same.encode(texts)).max() > 1e-4


@pytest.mark.parametrize("granularity", [4, "sentence"])
def test_landmarks_and_what_they_close(tiny_model_folder, texts_of, granularity):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", granularity, max_length=512)
    texts = mixed_texts(texts_of)[:12]
    found = embedder.encode_landmarks(texts, batch_tokens=400)
    vectors = embedder.encode(texts)
    for text, (hidden, spans), vector, layout in zip(
        texts, found, vectors, embedder.tokenizer.layouts(texts), strict=True
    ):
        assert hidden.shape == (len(layout.pooled), 32)
        mean = hidden.mean(0)
        np.testing.assert_allclose(mean / np.linalg.norm(mean), vector, atol=1e-5)
        # The spans follow one another and cover the text.
        assert "".join(text[start:end] for start, end in spans) == text
    assert found[0].spans == [(0, 0)]


def test_spans_end_where_the_text_is_cut(tiny_model_folder):
    text = "the river of stone and light in the garden"
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 2)

    def spans(max_length, granularity=2):
        ((_, found),) = embedder.with_granularity(granularity).encode_landmarks([text], max_length=max_length)
        return [text[start:end] for start, end in found]

    assert spans(512) == ["the river", " of stone", " and light", " in the", " garden"]
    assert spans(8) == ["the river", " of stone"]
    assert spans(4) == ["the river"]
    assert spans(4, granularity=100) == ["the river"]  # the third word's id became the landmark
    assert spans(2) == [""]
    with pytest.raises(ValueError, match="'landmark' only"):
        embedder.with_pooling(PoolingConfig("mean")).encode_landmarks([text])


def test_special_tokens_in_texts_do_not_move_the_vector(tiny_model_folder):
    """A landmark is where the layout says, also when the text holds its characters."""
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 64)
    texts = ["the [SEP] river", "the [SEP] [SEP] river [PAD] [CLS]"]
    batch = embedder.tokenizer(texts)
    assert batch["pooling_mask"].sum(1).tolist() == [1, 1]
    assert ((batch["input_ids"] == 2).sum(1) == 1).all()
    np.testing.assert_allclose(embedder.encode(texts), embedder.encode(texts[::-1])[::-1], atol=1e-6)
