"""The published gte checkpoints: their weights under their names, their rotary scaling, and never a random weight."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import AutoModel

from lmk_core import Embedder, load_encoder
from lmk_core.encoders import EncoderError, load_language_head

WIDTH, HEADS, INNER, LAYERS, VOCABULARY = 16, 2, 24, 2, 512
PUBLISHED = {
    "architectures": ["NewForMaskedLM"],
    "auto_map": {
        "AutoConfig": "someone/new-impl--configuration.NewConfig",
        "AutoModel": "someone/new-impl--m.NewModel",
    },
    "model_type": "new",
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "intermediate_size": INNER,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm",
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "position_embedding_type": "rope",
    "rope_theta": 500.0,
    "rope_scaling": None,
    "type_vocab_size": 2,
    "pack_qkv": True,
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
    "logn_attention_scale": False,
    "logn_attention_clip1": False,
    "torch_dtype": "float32",
    "transformers_version": "4.39.1",
}


def published_weights():
    """Random weights under the published names: one matrix for queries, keys and values, one for up and gate."""
    generator = torch.Generator().manual_seed(3)
    shapes = {
        "embeddings.word_embeddings.weight": (VOCABULARY, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        shapes |= {
            prefix + "attention.qkv_proj.weight": (3 * WIDTH, WIDTH),
            prefix + "attention.qkv_proj.bias": (3 * WIDTH,),
            prefix + "attention.o_proj.weight": (WIDTH, WIDTH),
            prefix + "attention.o_proj.bias": (WIDTH,),
            prefix + "mlp.up_gate_proj.weight": (2 * INNER, WIDTH),
            prefix + "mlp.down_proj.weight": (WIDTH, INNER),
            prefix + "mlp.down_proj.bias": (WIDTH,),
        }
        for norm in ("attn_ln", "mlp_ln"):
            shapes |= {f"{prefix}{norm}.weight": (WIDTH,), f"{prefix}{norm}.bias": (WIDTH,)}
    return {name: torch.randn(shape, generator=generator) * 0.4 for name, shape in shapes.items()}


def published_frequencies(theta, scaling):
    """The frequencies as the published code has them: (theta f)^(-2i/d), over f^(2/d)."""
    dim = WIDTH // HEADS
    factor = 1.0 if scaling is None else scaling["factor"]
    steps = np.arange(0, dim, 2, dtype=np.float64)
    return (theta * factor) ** (-steps / dim) / factor ** (2 / dim)


def published_forward(weights, config, ids):
    """The published model in its own words: [tokens] to [tokens, width]."""

    def norm(states, name):
        return functional.layer_norm(states, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    def turned(states):
        frequencies = torch.tensor(published_frequencies(config["rope_theta"], config["rope_scaling"])).float()
        angles = (torch.arange(len(ids))[:, None] * frequencies).repeat(1, 2)[:, None]
        first, second = states.chunk(2, dim=-1)
        return states * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()

    states = weights["embeddings.word_embeddings.weight"][ids]
    if config["type_vocab_size"]:
        states = states + weights["embeddings.token_type_embeddings.weight"][0]
    states = norm(states, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        own = {name.removeprefix(f"encoder.layer.{layer}."): value for name, value in weights.items()}
        joint = functional.linear(states, own["attention.qkv_proj.weight"], own["attention.qkv_proj.bias"])
        query, key, value = (part.view(-1, HEADS, WIDTH // HEADS) for part in joint.split(WIDTH, dim=-1))
        query, key = turned(query), turned(key)
        scores = torch.einsum("qhd,khd->hqk", query, key) / (WIDTH // HEADS) ** 0.5
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), value).reshape(-1, WIDTH)
        mixed = functional.linear(mixed, own["attention.o_proj.weight"], own["attention.o_proj.bias"])
        states = norm(states + mixed, f"encoder.layer.{layer}.attn_ln")
        up, gate = functional.linear(states, own["mlp.up_gate_proj.weight"]).split(INNER, dim=-1)
        inner = functional.gelu(gate) * up
        states = states + functional.linear(inner, own["mlp.down_proj.weight"], own["mlp.down_proj.bias"])
        states = norm(states, f"encoder.layer.{layer}.mlp_ln")
    return states


def write_checkpoint(folder, weights, prefix="new.", **config):
    folder.mkdir()
    config = {**PUBLISHED, **config}
    (folder / "config.json").write_text(json.dumps(config))
    stored = {prefix + name: value.contiguous() for name, value in weights.items()}
    if prefix:  # a masked language model has a head, which is not read
        stored["lm_head.dense.weight"] = torch.zeros(WIDTH, WIDTH)
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    return config


@pytest.mark.parametrize("prefix", ["new.", ""])
@pytest.mark.parametrize(
    "scaling", [None, {"type": "ntk", "factor": 4.0}, {"type": "ntk", "factor": 2, "mixed_b": None}]
)
def test_a_published_checkpoint_computes_the_same(tmp_path, prefix, scaling):
    weights = published_weights()
    config = write_checkpoint(tmp_path / "published", weights, prefix, rope_scaling=scaling)
    encoder = load_encoder(tmp_path / "published")
    assert type(encoder).__name__ == "GteModel"
    np.testing.assert_allclose(encoder.rotary_emb.inv_freq, published_frequencies(500.0, scaling), rtol=1e-5)
    ids = torch.arange(7, 47)
    expected = published_forward(weights, config, ids)
    with torch.no_grad():
        torch.testing.assert_close(encoder(ids[None]).last_hidden_state[0], expected, atol=1e-4, rtol=0)
    encoder.save_pretrained(tmp_path / "native")
    saved = json.loads((tmp_path / "native" / "config.json").read_text())
    assert saved["model_type"] == "gte"
    assert "auto_map" not in saved
    for again in (load_encoder(tmp_path / "native"), AutoModel.from_pretrained(tmp_path / "native")):
        with torch.no_grad():
            torch.testing.assert_close(again(ids[None]).last_hidden_state[0], expected, atol=1e-4, rtol=0)


def test_no_token_types_and_scaling_that_scales_nothing(tmp_path):
    weights = published_weights()
    del weights["embeddings.token_type_embeddings.weight"]
    config = write_checkpoint(tmp_path / "none", weights, type_vocab_size=0)
    ids = torch.arange(7, 20)
    with torch.no_grad():
        found = load_encoder(tmp_path / "none")(ids[None]).last_hidden_state[0]
    torch.testing.assert_close(found, published_forward(weights, config, ids), atol=1e-4, rtol=0)
    write_checkpoint(tmp_path / "one", published_weights(), rope_scaling={"type": "ntk", "factor": 1.0})
    frequencies = load_encoder(tmp_path / "one").rotary_emb.inv_freq
    np.testing.assert_allclose(frequencies, published_frequencies(500.0, None), rtol=1e-5)


def test_a_published_model_as_an_embedder(tmp_path, tiny_tokenizer_folder, texts_of):
    """With a tokenizer beside it, that reads its folder's config too."""
    write_checkpoint(tmp_path / "published", published_weights(), rope_scaling={"type": "ntk", "factor": 2.0})
    shutil.copytree(tiny_tokenizer_folder, tmp_path / "published", dirs_exist_ok=True)
    embedder = Embedder.from_pretrained(tmp_path / "published", "landmark", 8)
    texts = texts_of([5, 60])
    saved = embedder.save_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(Embedder.from_pretrained(saved).encode(texts), embedder.encode(texts), atol=1e-6)
    assert embedder.encode(texts).shape == (2, WIDTH)


def test_a_checkpoint_without_all_weights_is_refused(tmp_path):
    weights = published_weights()
    folder = tmp_path / "lacking"
    write_checkpoint(folder, weights)
    stored = load_file(folder / "model.safetensors")
    del stored["new.encoder.layer.1.mlp.up_gate_proj.weight"]
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EncoderError, match=r"lacks 2 weights, which would be random: layers\.1\.mlp\.gate_proj"):
        load_encoder(folder)
    # The names of another model: none of the weights is found.
    write_checkpoint(tmp_path / "foreign", weights, prefix="other.model.")
    with pytest.raises(EncoderError, match=r"lacks \d+ weights"):
        load_encoder(tmp_path / "foreign")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, r"rope_scaling\.type: 'dynamic'; valid: 'ntk'"),
        ({"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.6}}, r"rope_scaling\.mixed_b: 0\.6"),
        ({"rope_scaling": {"type": "ntk", "factor": "2"}}, r"rope_scaling\.factor: '2'; expected a positive number"),
        (
            {"position_embedding_type": "absolute"},
            "position_embedding_type: 'absolute'; the native gte model has 'rope'",
        ),
        ({"layer_norm_type": "rms_norm"}, "layer_norm_type: 'rms_norm'"),
        ({"logn_attention_scale": True}, "logn_attention_scale: True"),
        ({"pack_qkv": False}, "pack_qkv: False"),
    ],
)
def test_what_the_native_model_does_not_compute_is_refused(tmp_path, config, message):
    write_checkpoint(tmp_path / "model", published_weights(), **config)
    with pytest.raises(EncoderError, match=rf"model: config\.json: {message}"):
        load_encoder(tmp_path / "model")


def test_a_published_gte_head_is_loaded_and_tied(tmp_path):
    generator = torch.Generator().manual_seed(5)
    shapes = {
        "lm_head.dense.weight": (WIDTH, WIDTH),
        "lm_head.dense.bias": (WIDTH,),
        "lm_head.norm.weight": (WIDTH,),
        "lm_head.norm.bias": (WIDTH,),
        "lm_head.decoder.bias": (VOCABULARY,),
    }
    weights = {f"new.{name}": value for name, value in published_weights().items()}
    weights |= {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED))
    encoder = load_encoder(tmp_path)
    head, loaded = load_language_head(tmp_path, encoder)
    assert loaded
    embeddings = encoder.get_input_embeddings().weight
    assert torch.equal(embeddings, weights["new.embeddings.word_embeddings.weight"])
    assert any(parameter is embeddings for parameter in head.parameters())
    hidden = torch.randn(3, WIDTH, generator=generator)
    made = functional.gelu(functional.linear(hidden, weights["lm_head.dense.weight"], weights["lm_head.dense.bias"]))
    made = functional.layer_norm(
        made, (WIDTH,), weights["lm_head.norm.weight"], weights["lm_head.norm.bias"], PUBLISHED["layer_norm_eps"]
    )
    expected = functional.linear(made, embeddings, weights["lm_head.decoder.bias"])
    torch.testing.assert_close(head(hidden), expected, atol=1e-5, rtol=1e-5)


def test_a_type_without_a_masked_language_model_is_named(tmp_path):
    from transformers import CLIPTextConfig, CLIPTextModel

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    model = CLIPTextModel(CLIPTextConfig(vocab_size=50, **sizes))
    model.save_pretrained(tmp_path)
    with pytest.raises(EncoderError, match="no masked language model to pre-train"):
        load_language_head(tmp_path, model)
