"""Packed steps are the padded ones: gradients, weights, dropout, resumption."""

from __future__ import annotations

import random

import pytest
import torch
from stopping import Stopped
from transformers import AutoConfig, AutoModel

from lmk_core import Embedder
from lmk_core.encoders import PooledEncoder
from lmk_core.encoders.packed import attention
from lmk_train import train
from lmk_train.data import ContrastiveData, RowKey
from lmk_train.modules import ContrastiveModule
from lmk_train.modules.contrastive import _texts

KINDS = {"modernbert": {"local_attention": 8}, "gte": {}}
"""The window of 4 to either side is shorter than the texts: blocks, rectangles with a band, rectangles without."""

DROPOUTS = (
    *("embedding_dropout", "mlp_dropout", "attention_dropout"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
SPECIAL = ("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id")


@pytest.fixture
def setting(make_config, make_rows, write_rows, tmp_path):
    """A module whose encoder is of a kind, and a batch of texts of different lengths."""
    rows, draw = make_rows(6, scores=True) + make_rows(6, seed=1), random.Random(5)
    for row in rows:
        cut = [
            " ".join(text.split()[: draw.randint(1, 8)] * draw.choice([1, 1, 3])) for text in row["pos"] + row["neg"]
        ]
        row["pos"], row["neg"] = cut[:1], cut[1:]
    path = write_rows(tmp_path / "rows.jsonl", rows)

    def make(kind: str, *, std: float = 0.1, dropout: float = 0.0, **runtime):
        config = make_config(
            data={"train": [str(path)], "negatives": 2, "query_max_length": 16, "passage_max_length": 64},
            pooling={"kind": "landmark", "granularity": [4, 8]},
            optim__batch_size=12,
            runtime={"accelerator": "cpu", **runtime},
        )
        embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=64, device="cpu")
        settings = {
            "vocab_size": 400,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 4,
            "num_attention_heads": 2,
            **KINDS[kind],
            **dict.fromkeys(DROPOUTS, dropout),
            **dict.fromkeys(SPECIAL, 0),
        }
        torch.manual_seed(1)
        encoder = PooledEncoder(AutoModel.from_config(AutoConfig.for_model(kind, **settings)), config.pooling)
        for parameter in encoder.parameters():
            if parameter.ndim == 2:  # else all texts are read nearly alike
                torch.nn.init.normal_(parameter, std=std)
        data = ContrastiveData(config, embedder.tokenizer)
        batch = data.collator([data.dataset[RowKey(0, 0, row)] for row in range(12)])
        return ContrastiveModule(encoder.train(), embedder.tokenizer, config), batch

    return make


def step(module, batch):
    """What a step computed, and the gradients as they come to the optimizer."""
    torch.manual_seed(3)
    passed = module.engine.run(_texts(batch), lambda vectors: module._loss(batch, vectors)[0])
    return passed, {name: one.grad.clone() for name, one in module.named_parameters() if one.grad is not None}


def assert_close(found, wanted, tolerance=1e-6):
    assert found.keys() == wanted.keys()
    assert max(float(gradient.abs().max()) for gradient in wanted.values()) > 0.05
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=tolerance, msg=name)


@pytest.mark.parametrize("chunk", [None, 70])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "std"), [(torch.float32, 0.1), (torch.float64, 0.3)])
def test_gradients_are_those_of_padded_steps(kind, dtype, std, chunk, setting):
    """With weights of float64 far larger ones show the same; the vectors themselves are float32."""
    reference, batch = setting(kind, std=std, packed=False)
    padded, wanted = step(reference.to(dtype), batch)
    module, batch = setting(kind, std=std, chunk_tokens=chunk)
    passed, found = step(module.to(dtype), batch)
    assert (module.packing.used, reference.packing.used) == (True, False)
    assert passed.chunks.tokens == passed.chunks.padded == padded.chunks.tokens < padded.chunks.padded
    assert (len(passed.chunks.indices) > 5) == (chunk is not None)
    torch.testing.assert_close(passed.loss, padded.loss, rtol=1e-6, atol=1e-6)
    assert_close(found, wanted)


@pytest.mark.parametrize("chunk", [None, 70])
@pytest.mark.parametrize("kind", KINDS)
def test_checkpointed_activations_change_no_bit(kind, chunk, setting, monkeypatch):
    """With dropout, also in the attention: what is computed again drops the same."""
    calls, original = [], attention.packed_attention
    monkeypatch.setitem(
        attention.AttentionInterface._global_mapping,
        attention.NAME,
        lambda *a, **k: calls.append(1) or original(*a, **k),
    )
    plain, batch = setting(kind, dropout=0.2, chunk_tokens=chunk)
    _, wanted = step(plain, batch)
    before, after = len(calls), torch.get_rng_state()
    module, batch = setting(kind, dropout=0.2, chunk_tokens=chunk, activation_checkpointing=True)
    _, found = step(module, batch)
    layers, chunks = 4, len(module.engine.plan(_texts(batch), chunk).indices)
    assert before == layers * (2 * chunks - 1)
    assert len(calls) - before == layers * (3 * chunks - 1)  # of each chunk every layer once more
    assert torch.equal(after, torch.get_rng_state())
    for name, gradient in wanted.items():
        assert torch.equal(found[name], gradient), name


def test_with_dropout_the_second_pass_is_the_first_bit_for_bit(setting):
    module, batch = setting("gte", dropout=0.3, chunk_tokens=70)
    seen, embed = [], module.engine.embed
    module.engine.embed = lambda texts: seen.append((texts.ids.tolist(), embed(texts))) or seen[-1][1]
    step(module, batch)
    count = (len(seen) + 1) // 2
    assert count > 5
    for (ids, once), (again_ids, again) in zip(seen[: count - 1], seen[count:], strict=True):
        assert ids == again_ids
        assert torch.equal(once, again)


def test_an_encoder_that_cannot_pack_is_padded_and_says_so(make_config, tiny_model, tmp_path, recorder, monkeypatch):
    config = make_config(optim__steps=2)
    expected = train(make_config(optim__steps=2, runtime__packed=False), tmp_path / "padded")
    monkeypatch.setattr("lmk_train.modules.packing.packing_obstacle", lambda encoder: "it looks across texts")
    found = train(config, tmp_path / "run", recorder)
    assert {"event": "padded", "step": 0, "reason": "it looks across texts"} in recorder.events
    assert all(share > 0 for share in recorder.curve("train/padding_share").values())
    ours, theirs = (Embedder.from_pretrained(model, device="cpu").module.state_dict() for model in (found, expected))
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


def test_packing_that_was_changed_on_the_way_is_told(make_config, tmp_path, recorder, stop_after):
    stop_after(3)
    with pytest.raises(Stopped):
        train(make_config(runtime__checkpoint_every=3), tmp_path)
    stop_after(0)
    train(make_config(runtime__packed=False), tmp_path, recorder)
    assert {"event": "packing_changed", "step": 3, "before": "packed", "now": "padded"} in recorder.events
    assert "padded" not in recorder.kinds()
    assert list(recorder.curve("train/loss")) == [4, 5, 6]
