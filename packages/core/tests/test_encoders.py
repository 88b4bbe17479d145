"""What is refused when an encoder is loaded, and what is loaded right."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    RoFormerConfig,
    RoFormerModel,
)

from lmk_core import Embedder, PooledEncoder, PoolingConfig, load_encoder
from lmk_core.encoders import EncoderError
from lmk_core.encoders.causal import why_causal
from lmk_core.encoders.loading import max_positions, refuse_too_long

SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}


def save(folder, kind, auto=AutoModel, **options):
    auto.from_config(AutoConfig.for_model(kind, **{**SMALL, **options})).save_pretrained(folder)
    return folder


def test_causal_models_are_refused_unless_wanted(tmp_path):
    folder = save(tmp_path, "llama", num_key_value_heads=2)
    with pytest.raises(EncoderError, match=r"looks like a causal model.*causal_ok=True"):
        load_encoder(folder)
    assert type(load_encoder(folder, causal_ok=True)).__name__ == "LlamaModel"


@pytest.mark.parametrize(
    ("config", "causal"),
    [
        ({"model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"]}, False),
        ({"model_type": "bert", "is_decoder": False}, False),
        ({"model_type": "bert", "is_decoder": True}, True),
        ({"model_type": "roberta", "architectures": ["RobertaForCausalLM"]}, True),
        ({"model_type": "modernbert-decoder"}, True),
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, True),
        ({"model_type": "qwen3", "architectures": ["Qwen3Model"]}, True),
        ({"model_type": "gemma3_text", "architectures": ["Gemma3TextModel"]}, True),
        ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, False),
        ({"model_type": "gte"}, False),
        ({"model_type": "eurobert"}, False),
        ({"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}, False),
    ],
    ids=str,
)
def test_why_causal(config, causal):
    assert (why_causal(config) is not None) == causal


def test_checkpoints_that_cannot_be_loaded_right(tmp_path, tiny_model_folder):
    new = tmp_path / "new"
    new.mkdir()
    (new / "config.json").write_text(json.dumps({"model_type": "t5", "is_encoder_decoder": True}))
    with pytest.raises(EncoderError, match="encoder-decoder"):
        load_encoder(new, causal_ok=True)

    lacking = shutil.copytree(tiny_model_folder, tmp_path / "lacking")
    weights = load_file(lacking / "model.safetensors")
    dropped = next(name for name in weights if "layers.1" in name and "Wqkv" in name)
    save_file({name: value for name, value in weights.items() if name != dropped}, lacking / "model.safetensors")
    with pytest.raises(EncoderError, match="lacks 1 weights, which would be random"):
        load_encoder(lacking)

    pickled = shutil.copytree(tiny_model_folder, tmp_path / "pickled")
    (pickled / "model.safetensors").unlink()
    torch.save(weights, pickled / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        load_encoder(pickled)
    with pytest.raises(EncoderError, match="dtype: 'float99'"):
        load_encoder(tiny_model_folder, dtype="float99")


def test_weights_of_another_shape_are_refused(tmp_path, tiny_model_folder):
    folder = shutil.copytree(tiny_model_folder, tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 32}))
    with pytest.raises(
        EncoderError, match=r"has another shape of 6 weights, which would be random: layers\.0\.mlp\.Wi"
    ):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["./out/modle", "out/best/modle", "../modle", "/nowhere/modle", "a model", "~/modle"])
def test_a_folder_that_is_not_there(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = f"{name}: there is no such folder (looked for in {tmp_path}), and no model of the Hugging Face Hub can"
    for load in (load_encoder, lambda path: Embedder.from_pretrained(path, "landmark")):
        with pytest.raises(EncoderError) as caught:
            load(name)
        assert str(caught.value).startswith(wanted)
    (tmp_path / "model.bin").touch()
    with pytest.raises(EncoderError, match=r"model\.bin: is a file, not a model's folder"):
        load_encoder("model.bin")


def test_a_masked_language_model_loads_without_its_pooler(tmp_path):
    BertForMaskedLM(BertConfig(**SMALL, max_position_embeddings=32)).save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path)
    assert encoder.pooler is None
    assert not encoder.training
    assert max_positions(encoder) == 32
    ids = torch.tensor([[1, 5, 6, 2]])
    reference = AutoModelForMaskedLM.from_pretrained(tmp_path).bert.eval()
    hidden = PooledEncoder(encoder, PoolingConfig("cls")).hidden_states(ids, torch.ones_like(ids))
    torch.testing.assert_close(hidden, reference(ids).last_hidden_state)


def test_positions_behind_the_padding_index(tmp_path):
    folder = save(tmp_path, "xlm-roberta", max_position_embeddings=34, pad_token_id=1)
    assert max_positions(load_encoder(folder)) == 32


def test_positions_under_other_names():
    config = RoFormerConfig(
        vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    encoder = RoFormerModel(config)
    assert max_positions(encoder) == config.max_position_embeddings == 1536
    with pytest.raises(ValueError, match="max_length: 1537 is beyond the model's table of positions; at most 1536"):
        refuse_too_long(encoder, 1537)


def test_type_of_the_weights(tiny_model_folder, tmp_path):
    encoder = load_encoder(tiny_model_folder, dtype="bfloat16")
    assert next(encoder.parameters()).dtype == torch.bfloat16
    encoder.save_pretrained(tmp_path)
    assert next(load_encoder(tmp_path).parameters()).dtype == torch.float32
    assert max_positions(encoder) is None
    module = PooledEncoder(encoder, PoolingConfig("landmark"))
    mask = torch.tensor([[False, False, True]])
    vector = module(torch.tensor([[1, 9, 2]]), torch.ones(1, 3, dtype=torch.long), mask)
    assert vector.dtype == torch.float32
    torch.testing.assert_close(vector.norm(dim=-1), torch.ones(1))
