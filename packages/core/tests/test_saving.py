"""Saved models: round trips, other readings of a saved model, and folders that are not overwritten."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from transformers import BertConfig, BertModel

import lmk_core
from lmk_core import Embedder, PoolingConfig, PoolingConfigError
from lmk_core.embedder.saving import SavedModelError
from lmk_core.encoders import EncoderError
from lmk_core.layouts.sentences import SentenceSplitterError, SentencexSplitter

EVERY_KIND = [
    PoolingConfig("cls"),
    PoolingConfig("multi_cls", every=16),
    PoolingConfig("mean"),
    PoolingConfig("mean_at_k", k=8),
    PoolingConfig("latent_attention", num_latents=6, latent_heads=2),
    PoolingConfig("landmark", granularity=16),
    PoolingConfig("landmark", granularity=(8, 16), overflow="budget"),
    PoolingConfig("landmark", granularity="sentence"),
]


@pytest.mark.parametrize("pooling", EVERY_KIND, ids=lambda pooling: str(pooling.to_dict()))
def test_round_trip(tiny_model_folder, tmp_path, texts_of, pooling):
    texts = ["", *texts_of([1, 30, 120])]
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=77)
    expected = embedder.encode(texts)
    folder = embedder.save_pretrained(tmp_path / "a" / "model")
    again = Embedder.from_pretrained(folder)
    assert again.pooling == pooling
    assert again.max_length == 77
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-6)
    assert (folder / "reduction.safetensors").exists() == (pooling.kind == "latent_attention")
    splitter = {"sentence_splitter": "sentencex:en"} if pooling.granularity == "sentence" else {}
    assert json.loads((folder / "lmk_config.json").read_text()) == {
        "lmk_core": lmk_core.__version__,
        "pooling": pooling.to_dict(),
        "max_length": 77,
        "overflow": pooling.overflow,
        **splitter,
    }
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_saved_model_is_read_in_other_ways(tiny_model_folder, tmp_path):
    base = Embedder.from_pretrained(tiny_model_folder, "landmark", (8, 16), 99, overflow="budget")
    folder = base.save_pretrained(tmp_path / "model")
    assert Embedder.from_pretrained(folder, granularity=8).pooling == base.pooling.with_granularity(8)
    assert Embedder.from_pretrained(folder, "landmark").pooling == base.pooling
    assert Embedder.from_pretrained(folder, overflow="cut", max_length=12).pooling.overflow == "cut"
    assert Embedder.from_pretrained(folder, max_length=12).max_length == 12
    assert Embedder.from_pretrained(folder, "mean").pooling == PoolingConfig("mean")
    cls = Embedder.from_pretrained(tiny_model_folder, "cls").save_pretrained(tmp_path / "cls")
    assert Embedder.from_pretrained(cls, "multi_cls").pooling == PoolingConfig("multi_cls")


def test_trained_latents_are_not_lost(tiny_model_folder, tmp_path):
    latent = Embedder.from_pretrained(tiny_model_folder, PoolingConfig("latent_attention", num_latents=4))
    folder = latent.save_pretrained(tmp_path / "model")
    for other in ("mean", PoolingConfig("latent_attention", num_latents=8)):
        with pytest.raises(PoolingConfigError, match="would lose its latents"):
            Embedder.from_pretrained(folder, other)
    assert Embedder.from_pretrained(folder, "latent_attention").pooling == latent.pooling
    (folder / "reduction.safetensors").unlink()
    with pytest.raises(SavedModelError, match=r"reduction\.safetensors is missing"):
        Embedder.from_pretrained(folder)


def test_a_splitter_of_ones_own_must_be_passed_again(tiny_model_folder, tmp_path):
    texts = ["the river. and the\nstone and. the\nhouse"]
    base = Embedder.from_pretrained(tiny_model_folder, "landmark", "sentence", sentence_splitter=str.splitlines)
    expected = base.encode(texts)
    folder = base.save_pretrained(tmp_path / "model")
    with pytest.raises(SentenceSplitterError, match=r"model: was saved with a sentence splitter of its own.*pass that"):
        Embedder.from_pretrained(folder)
    again = Embedder.from_pretrained(folder, sentence_splitter=str.splitlines)
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-6)
    assert (
        np.abs(Embedder.from_pretrained(tiny_model_folder, "landmark", "sentence").encode(texts) - expected).max()
        > 1e-3
    )
    # Other readings need no splitter, and do not forget that there was one.
    sized = Embedder.from_pretrained(folder, granularity=8)
    with pytest.raises(SentenceSplitterError, match="of its own"):
        sized.with_granularity("sentence")
    with pytest.raises(SentenceSplitterError, match="of its own"):
        Embedder.from_pretrained(sized.save_pretrained(tmp_path / "sized"), granularity="sentence")


def test_a_splitters_language_is_remembered(tiny_model_folder, tmp_path, monkeypatch):
    german = SentencexSplitter("de")
    base = Embedder.from_pretrained(tiny_model_folder, "landmark", "sentence", sentence_splitter=german)
    folder = base.save_pretrained(tmp_path / "model")
    assert Embedder.from_pretrained(folder).tokenizer.sentence_splitter == german
    assert (
        Embedder.from_pretrained(folder, granularity=8).with_granularity("sentence").tokenizer.sentence_splitter
        == german
    )
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(SentenceSplitterError, match="pip install"):
        Embedder.from_pretrained(folder)
    assert Embedder.from_pretrained(folder, granularity=8).pooling.granularity == 8
    monkeypatch.undo()
    file = folder / "lmk_config.json"
    file.write_text(file.read_text().replace("sentencex:de", "de"))
    with pytest.raises(SentenceSplitterError, match="sentence_splitter: 'de'; valid: sentencex:<language>"):
        Embedder.from_pretrained(folder)


def test_a_plain_model_needs_a_pooling(tiny_model_folder):
    with pytest.raises(PoolingConfigError, match="say which, for example pooling='landmark'"):
        Embedder.from_pretrained(tiny_model_folder)
    with pytest.raises(PoolingConfigError, match="valid: cls, multi_cls"):
        Embedder.from_pretrained(tiny_model_folder, "max")
    with pytest.raises(PoolingConfigError, match="does not apply"):
        Embedder.from_pretrained(tiny_model_folder, "cls", granularity=32)
    with pytest.raises(PoolingConfigError, match="does not apply"):
        Embedder.from_pretrained(tiny_model_folder, "cls", overflow="budget")


def test_folders_of_others_are_not_overwritten(tiny_model_folder, tmp_path, texts_of):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("ten years of work")
    with pytest.raises(SavedModelError, match="will not overwrite"):
        embedder.save_pretrained(foreign)
    assert [path.name for path in foreign.iterdir()] == ["thesis.txt"]
    with pytest.raises(SavedModelError, match="is a file"):
        embedder.save_pretrained(foreign / "thesis.txt")
    empty = tmp_path / "empty"
    empty.mkdir()
    embedder.save_pretrained(empty)
    latent = Embedder.from_pretrained(tiny_model_folder, "latent_attention")
    latent.save_pretrained(empty)
    embedder.save_pretrained(empty)
    assert not (empty / "reduction.safetensors").exists()
    assert Embedder.from_pretrained(empty).pooling == embedder.pooling
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "foreign"]


def test_a_failed_write_leaves_the_old_model(tiny_model_folder, tmp_path, monkeypatch):
    folder = Embedder.from_pretrained(tiny_model_folder, "landmark").save_pretrained(tmp_path / "model")
    embedder = Embedder.from_pretrained(tiny_model_folder, "mean")

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(embedder.tokenizer.hf_tokenizer, "save_pretrained", fail)
    with pytest.raises(OSError, match="disk full"):
        embedder.save_pretrained(folder)
    assert Embedder.from_pretrained(folder).pooling.kind == "landmark"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failed_rename_puts_the_old_model_back(tiny_model_folder, tmp_path, monkeypatch, error):
    folder = Embedder.from_pretrained(tiny_model_folder, "landmark").save_pretrained(tmp_path / "model")
    real = Path.rename

    def rename(path, target):
        if path.name.startswith(".model.new-"):
            raise error
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(type(error)):
        Embedder.from_pretrained(tiny_model_folder, "mean").save_pretrained(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert Embedder.from_pretrained(folder).pooling.kind == "landmark"


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"pooling": {"kind": "max"}, "max_length": 9}', '{"pooling": {"kind": "cls"}}']
)
def test_a_broken_config_names_its_file(tiny_model_folder, tmp_path, content):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "model")
    (folder / "lmk_config.json").write_text(content)
    with pytest.raises(SavedModelError, match=r"lmk_config\.json: "):
        Embedder.from_pretrained(folder)
    (folder / "lmk_config.json").write_text('{"pooling": {"kind": "cls"}, "max_length": 1}')
    with pytest.raises(SavedModelError, match="max_length: 1"):
        Embedder.from_pretrained(folder)
    (folder / "lmk_config.json").write_text('{"pooling": {"kind": "cls"}, "max_length": 9, "sentence_splitter": 1}')
    with pytest.raises(SavedModelError, match="sentence_splitter: 1; expected a string"):
        Embedder.from_pretrained(folder)


def test_lengths_beyond_a_table_of_positions(tiny_tokenizer_folder, tmp_path, texts_of):
    config = BertConfig(
        vocab_size=512,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(tmp_path)
    shutil.copytree(tiny_tokenizer_folder, tmp_path, dirs_exist_ok=True)
    embedder = Embedder.from_pretrained(tmp_path, "landmark", 8, max_length=64)
    assert embedder.encode(texts_of([200])).shape == (1, 16)
    with pytest.raises(ValueError, match="max_length: 65 is beyond the model's table of positions; at most 64"):
        embedder.encode(["a"], max_length=65)
    with pytest.raises(ValueError, match="at most 64"):
        Embedder.from_pretrained(tmp_path, "landmark")
    folder = embedder.save_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(Embedder.from_pretrained(folder).encode(["a"]), embedder.encode(["a"]), atol=1e-6)


def test_a_name_that_does_not_exist_offline():
    with pytest.raises(EncoderError, match="nobody/nothing: neither a folder here nor a model"):
        Embedder.from_pretrained("nobody/nothing", "cls")


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_whoever_may_read_the_settings_may_read_the_weights(tiny_model_folder, tmp_path, mask):
    before = os.umask(mask)
    try:
        pooling = PoolingConfig("latent_attention", num_latents=6, latent_heads=2)
        embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=77)
        folder = embedder.save_pretrained(tmp_path / "model")
    finally:
        os.umask(before)
    modes = {str(file.relative_to(folder)): file.stat().st_mode & 0o777 for file in folder.rglob("*") if file.is_file()}
    assert {"model.safetensors", "reduction.safetensors"} <= modes.keys()
    assert modes == dict.fromkeys(modes, 0o666 & ~mask)
