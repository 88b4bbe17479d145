"""Packed steps are the padded ones: gradients, weights, dropout, resumption."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
import torch
from stopping import Stopped

from lmk_core import Embedder
from lmk_core.encoders.packed import attention
from lmk_core.encoders.packed.modernbert import PackedModernBertAttention
from lmk_train import train
from lmk_train.modules.contrastive import _texts

sys.path.append(str(Path(__file__).parent))  # the forks import it by its name
from packed_modules import KINDS, batch_of, module_of, step, step_on_ranks


@pytest.fixture
def configure(make_config, make_rows, write_rows, tmp_path):
    """A training on 12 rows of texts of different lengths, those of the first two rows short; keywords of runtime."""
    rows, draw = make_rows(6, scores=True) + make_rows(6, seed=1), random.Random(5)
    for place, row in enumerate(rows):
        repeats = [1] if place < 2 else [1, 1, 3]
        texts = [text.split()[: draw.randint(1, 8)] * draw.choice(repeats) for text in row["pos"] + row["neg"]]
        row["pos"], row["neg"] = [" ".join(texts[0])], [" ".join(text) for text in texts[1:]]
    path = write_rows(tmp_path / "rows.jsonl", rows)

    def make(**runtime):
        return make_config(
            data={"train": [str(path)], "negatives": 2, "query_max_length": 16, "passage_max_length": 64},
            pooling={"kind": "landmark", "granularity": [4, 8]},
            optim__batch_size=12,
            runtime={"accelerator": "cpu", **runtime},
        )

    return make


@pytest.fixture
def setting(configure):
    """A module whose encoder is of a kind, and a batch of all rows."""

    def make(kind: str, *, std: float = 0.1, dropout: float = 0.0, **runtime):
        config = configure(**runtime)
        module = module_of(config, kind, std=std, dropout=dropout)
        return module, batch_of(config, module, range(12))

    return make


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


def test_checkpointed_activations_hold_less(setting):
    """What the graph of a whole batch keeps, in bytes: of a layer its input, instead of all that it computes."""
    held = {}
    for again in (False, True):
        module, batch = setting("modernbert", activation_checkpointing=again)
        kept: dict[int, int] = {}

        def pack(tensor, kept=kept):
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            module.loss(batch)
        held[again] = sum(kept.values())
    assert held[True] < 0.3 * held[False]


@pytest.mark.parametrize("kind", KINDS)
def test_with_dropout_the_second_pass_is_the_first_bit_for_bit(kind, setting):
    """Also where ModernBERT's layers take their shorter ways, of which one is for passes with a gradient alone."""
    module, batch = setting(kind, dropout=0.3, chunk_tokens=70)
    for part in module.modules():
        if isinstance(part, PackedModernBertAttention):
            part.attention_dropout = 0.0
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


@pytest.mark.parametrize("room", [None, 32])
@pytest.mark.parametrize("shares", [[range(1), range(1, 12)], [range(1), range(1, 10), range(10, 12)]])
def test_ranks_with_different_numbers_of_packed_chunks(shares, room, configure, tmp_path):
    """Nobody waits for a chunk that another does not have, nor when the last one's memory runs out on the way.

    The halved chunk is that of the longest text of all.
    """
    config = configure(chunk_tokens=50)
    found = step_on_ranks(config, shares, tmp_path, room)
    whole = module_of(configure(), "modernbert")
    passed, wanted = step(whole, batch_of(config, whole, range(12)))
    if room is None:
        assert found[0]["chunks"] == 1
        assert found[1]["chunks"] >= 7
    assert [one["halved"] for one in found] == [[] if room is None else [30]] * len(shares)
    torch.testing.assert_close(sum(one["loss"] for one in found), passed.loss, rtol=1e-6, atol=1e-6)
    for one in found:
        assert_close(one["gradients"], wanted)
