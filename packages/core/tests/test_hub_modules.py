"""Saved models in Sentence Transformers: the same vectors as `Embedder`'s, for every kind, and its options."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from lmk_core import Embedder, PoolingConfig, load_sentence_transformer
from lmk_core.hub.config import SavedModelError
from lmk_core.hub.features import one_layout
from lmk_core.hub.modules import LayoutPooling, LayoutTransformer

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
    special = ["the [SEP] river [CLS] [PAD] </s> <s> <eos> [MASK]", "[SEP]", "</s>", "  two  spaces\n and. A line. "]
    return ["", *texts_of([1, 30, 120]), *special]


def needs_flag(pooling):
    return pooling.kind not in ("cls", "mean")


def opened(folder, pooling):
    return SentenceTransformer(str(folder), trust_remote_code=needs_flag(pooling))


@every_kind
def test_the_same_vectors_in_sentence_transformers(tiny_model_folder, tmp_path, texts, pooling):
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    embedder.prompts = {"query": "the question: ", "document": ""}
    expected = embedder.encode(texts)
    folder = embedder.save_pretrained(tmp_path / "model")
    model = opened(folder, pooling)
    assert model.max_seq_length == 60
    assert model.get_embedding_dimension() == 32
    np.testing.assert_allclose(model.encode(texts, batch_size=3), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(texts[2]), expected[2], atol=1e-5)
    np.testing.assert_allclose(load_sentence_transformer(folder).encode(texts), expected, atol=1e-5)
    with_prompt = embedder.encode(["the question: " + text for text in texts])
    np.testing.assert_allclose(model.encode_query(texts), with_prompt, atol=1e-5)
    np.testing.assert_allclose(model.encode_document(texts), expected, atol=1e-5)
    # Saved by Sentence Transformers, and opened by both.
    model.save_pretrained(str(tmp_path / "again"))
    again = opened(tmp_path / "again", pooling)
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-5)
    assert again.prompts == model.prompts == embedder.prompts
    back = Embedder.from_pretrained(tmp_path / "again")
    assert (back.pooling, back.max_length, back.prompts) == (pooling, 60, embedder.prompts)
    np.testing.assert_allclose(back.encode(texts), expected, atol=1e-5)


@every_kind
def test_shorter_texts_and_hidden_states(tiny_model_folder, tmp_path, texts, pooling):
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    model = opened(embedder.save_pretrained(tmp_path / "model"), pooling)
    model.max_seq_length = 20
    np.testing.assert_allclose(model.encode(texts), embedder.encode(texts, max_length=20), atol=1e-5)
    states = model.encode(texts, output_value="token_embeddings")
    assert [len(state) for state in states] == embedder.tokenizer.layouts(texts, max_length=20).lengths.tolist()
    model.save_pretrained(str(tmp_path / "again"))
    assert Embedder.from_pretrained(tmp_path / "again").max_length == 20


@pytest.mark.parametrize("pooling", [KINDS["mean"], KINDS["fixed"]])
def test_texts_beyond_what_the_config_says_of_positions(tiny_model_folder, tmp_path, texts, pooling):
    """It is no limit of a rotary encoder; Sentence Transformers would cut to it."""
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    embedder.module.encoder.config.max_position_embeddings = 16
    model = opened(embedder.save_pretrained(tmp_path / "model"), pooling)
    assert model.config.max_position_embeddings == 16
    np.testing.assert_allclose(model.encode(texts), embedder.encode(texts), atol=1e-5)
    if pooling.kind == "landmark":
        model.save_pretrained(str(tmp_path / "again"))
        assert opened(tmp_path / "again", pooling).max_seq_length == 60


def test_modules_put_together_by_hand(tiny_model_folder, texts):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8, max_length=60)
    transformer = LayoutTransformer(str(tiny_model_folder), pooling={"kind": "landmark", "granularity": 8})
    model = SentenceTransformer(modules=[transformer, LayoutPooling(32, embedder.pooling), Normalize()])
    model.max_seq_length = 60
    np.testing.assert_allclose(model.encode(texts), embedder.encode(texts), atol=1e-5)
    transformer.unpad_inputs = True
    assert transformer.can_flatten_inputs is False


def test_lengths_of_one_call(tiny_model_folder, tmp_path, texts):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8, max_length=60)
    model = opened(embedder.save_pretrained(tmp_path / "model"), embedder.pooling)
    lengths = {"max_length": 12}, {"processing_kwargs": {"text": {"max_length": 12}}}
    for options in lengths:
        assert model.preprocess(texts, **options)["input_ids"].shape[1] == 12
    model[0].query_length = 10
    assert model.preprocess(texts, task="query")["input_ids"].shape[1] == 10
    assert model.preprocess(texts, task="document")["input_ids"].shape[1] == 60
    assert model.preprocess(texts, task="query", max_length=11)["input_ids"].shape[1] == 11
    with pytest.raises(ValueError, match=r"text\.padding: unknown here; valid: text\.max_length"):
        model.preprocess(texts, processing_kwargs={"text": {"padding": "max_length"}})
    with pytest.raises(TypeError, match="expected a string or a pair of strings, found dict"):
        model.preprocess([{"text": "a"}])
    with pytest.raises(ValueError, match="own preprocess"):
        model(dict(embedder.tokenizer.hf_tokenizer(["a"], return_tensors="pt")))


@every_kind
def test_a_prompt_that_is_not_pooled(tiny_model_folder, tmp_path, texts_of, pooling):
    """The prompt is read, and counts towards the length, but nothing of it is pooled."""
    prompt = "the river of stone and light. in the garden of the " * 2
    texts = ["", *texts_of([1, 30, 120])]
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    model = opened(embedder.save_pretrained(tmp_path / "model"), pooling)
    pooled_with_it = model.encode(texts, prompt=prompt)
    np.testing.assert_allclose(pooled_with_it, embedder.encode([prompt + text for text in texts]), atol=1e-5)
    model.set_pooling_include_prompt(False)
    found = model.encode(texts, prompt=prompt)
    assert np.abs(found - pooled_with_it).max() > 1e-2
    np.testing.assert_allclose(model.encode(texts), embedder.encode(texts), atol=1e-5)
    with torch.no_grad():
        expected = embedder.module(**embedder.tokenizer(texts, prompt=prompt, include_prompt=False)).numpy()
    # Sentence Transformers' own mean of an empty text behind a prompt is of its SEP, and so is ours.
    np.testing.assert_allclose(found, expected, atol=1e-5)
    model.save_pretrained(str(tmp_path / "again"))
    again = opened(tmp_path / "again", pooling)
    np.testing.assert_allclose(again.encode(texts, prompt=prompt), found, atol=1e-5)
    # The model's own way, also for `Embedder`, and written by it again.
    back = Embedder.from_pretrained(tmp_path / "again")
    assert not back.include_prompt
    np.testing.assert_allclose(back.encode(texts, prompt=prompt), found, atol=1e-5)
    np.testing.assert_allclose(back.encode(texts, prompt=prompt, include_prompt=True), pooled_with_it, atol=1e-5)
    theirs = opened(back.save_pretrained(tmp_path / "back"), pooling)
    np.testing.assert_allclose(theirs.encode(texts, prompt=prompt), found, atol=1e-5)


def test_the_pooled_positions_behind_a_prompt(tiny_model_folder, tmp_path):
    """A chunk that reaches over the prompt's end is pooled, those before it are not; one landmark always stays."""
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 4, max_length=60)
    model = opened(embedder.save_pretrained(tmp_path / "model"), embedder.pooling)
    prompt = "the river of stone and light in the garden"
    count = len(embedder.tokenizer.tokenize([prompt])[0])
    features = model.preprocess([" window" * 9, ""], prompt=prompt)
    pooled, kept = features["pooling_mask"], features["text_mask"]
    assert pooled.sum(1).tolist() == [-(-(count + 9) // 4), -(-count // 4)]
    assert kept.sum(1).tolist() == [-(-(count + 9) // 4) - count // 4, 1]
    for row in range(2):
        positions = pooled[row].nonzero().flatten().tolist()
        assert kept[row].nonzero().flatten().tolist() == positions[-int(kept[row].sum()) :]


@pytest.mark.parametrize("pooling", [KINDS["fixed"], KINDS["variable"], KINDS["multi_cls"], KINDS["mean_at_k"]])
def test_pairs(tiny_model_folder, tmp_path, texts_of, pooling):
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    model = opened(embedder.save_pretrained(tmp_path / "model"), pooling)
    pairs = list(zip(texts_of([1, 30, 120, 40]), texts_of([20, 9, 80, 1], seed=1), strict=True))
    with torch.no_grad():
        expected = embedder.module(**embedder.tokenizer(pairs)).numpy()
    np.testing.assert_allclose(model.encode(pairs), expected, atol=1e-5)
    assert len(one_layout(model.preprocess(pairs), drawn=True)["input_ids"]) == 4


def test_nothing_of_the_folder_runs_without_the_flag(tiny_model_folder, tmp_path):
    folder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8).save_pretrained(tmp_path / "model")
    expected = Embedder.from_pretrained(folder).encode(["a text"])
    (folder / "modeling_lmk.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit('code ran')\n")
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(folder))
    np.testing.assert_allclose(Embedder.from_pretrained(folder).encode(["a text"]), expected, atol=1e-6)
    np.testing.assert_allclose(load_sentence_transformer(folder).encode(["a text"]), expected, atol=1e-6)
    assert not (tmp_path / "ran").exists()
    assert not [path for path in folder.rglob("*") if path.suffix in (".bin", ".pt", ".pkl", ".pickle")]


def test_what_is_no_model_of_ours(tiny_model_folder, tmp_path):
    with pytest.raises(SavedModelError, match=r"modules\.json is missing; save it with"):
        load_sentence_transformer(tiny_model_folder)
    folder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8).save_pretrained(tmp_path / "model")
    modules = json.loads((folder / "modules.json").read_text())
    for kind in ("somebody.Else", "modeling_lmk.torch"):
        modules[1]["type"] = kind
        (folder / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(SavedModelError, match=f"{kind} is neither of lmk-core nor of Sentence Transformers"):
            load_sentence_transformer(folder)


def test_options_of_the_convenience(tiny_model_folder, tmp_path):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8)
    embedder.prompts = {"query": "q: "}
    folder = embedder.save_pretrained(tmp_path / "model")
    model = load_sentence_transformer(folder, truncate_dim=8, device="cpu")
    assert model.encode(["a"]).shape == (1, 8)
    assert model.prompts["query"] == "q: "
    assert load_sentence_transformer(folder, prompts={"query": "other: "}).prompts["query"] == "other: "
    assert load_sentence_transformer(folder).similarity_fn_name == "cosine"
    # Of loading the modules, as in SentenceTransformer itself.
    half = load_sentence_transformer(folder, model_kwargs={"dtype": torch.bfloat16}, local_files_only=True)
    assert half[0].model.dtype == torch.bfloat16
    cut = load_sentence_transformer(folder, tokenizer_kwargs={"model_max_length": 33})
    assert cut.tokenizer.model_max_length == 33


def test_a_splitter_of_ones_own(tiny_model_folder, tmp_path):
    """Is set again on the model: no file can hold it."""
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", "sentence", sentence_splitter=str.splitlines)
    texts = ["the river. and the\nstone and. the\nhouse"]
    model = load_sentence_transformer(embedder.save_pretrained(tmp_path / "model"))
    with pytest.raises(ValueError, match="sentence splitter of its own"):
        model.encode(texts)
    model[0].sentence_splitter = str.splitlines
    np.testing.assert_allclose(model.encode(texts), embedder.encode(texts), atol=1e-5)
