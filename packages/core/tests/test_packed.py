"""Packed batches: the same vectors and gradients as padded ones and as each text alone, and no look across texts."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.nn.attention import varlen
from transformers import AutoConfig, AutoModel

from lmk_core import Embedder, PooledEncoder, PoolingConfig, PoolingTokenizer
from lmk_core.encoders import PackedAttentionError
from lmk_core.encoders.packed import attention, modernbert
from lmk_core.encoders.packed.groups import Blocks, plan_groups
from lmk_core.encoders.packed.segments import Segments

KINDS = [
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
# Shorter and longer than the window of the tiny ModernBERT (8 to either side) and than its blocks; some of one length.
LENGTHS = [0, 3, 90, 1, 20, 20, 7, 60, 9]
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
SMALL = {
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "initializer_range": 0.3,
    "max_position_embeddings": 128,
}


def encoder_of(kind, **options):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        settings = {**SMALL, "local_attention": 16, **SPECIAL, **options}
        if kind != "modernbert":
            del settings["local_attention"]
        return AutoModel.from_config(AutoConfig.for_model(kind, **settings)).eval()


def gradients_of(module, vectors, weights):
    module.zero_grad()
    (vectors * weights).sum().backward()
    return {name: value.grad.clone() for name, value in module.named_parameters() if value.grad is not None}


def assert_the_same(module, tokenizer, texts, tolerance=1e-5):
    """Padded, packed and one by one: vectors, and gradients of a weighted sum of them."""
    layouts = tokenizer.layouts(texts)
    weights = torch.randn(len(texts), module.dim, generator=torch.Generator().manual_seed(5))
    padded = module(**tokenizer.pad(layouts))
    packed = module.forward_packed(**tokenizer.pack(layouts))
    alone = torch.cat([module.forward_packed(**tokenizer.pack([layout])) for layout in layouts])
    torch.testing.assert_close(packed, padded, atol=tolerance, rtol=0)
    torch.testing.assert_close(alone, padded, atol=tolerance, rtol=0)
    wanted = gradients_of(module, padded, weights)
    for other in (packed, alone):
        found = gradients_of(module, other, weights)
        assert found.keys() == wanted.keys()
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name], gradient, atol=tolerance * max(1, gradient.abs().max()), rtol=0)
    return padded


@pytest.mark.parametrize("kind", ["modernbert", "gte"])
@pytest.mark.parametrize("pooling", KINDS, ids=lambda pooling: str(pooling.to_dict()))
def test_padded_packed_and_alone_agree(tiny_tokenizer, texts_of, pooling, kind):
    tokenizer = PoolingTokenizer(tiny_tokenizer, pooling, 96)
    texts = [text.replace("river", "river.") for text in texts_of(LENGTHS, seed=3)]
    torch.manual_seed(2)
    vectors = assert_the_same(PooledEncoder(encoder_of(kind), pooling).eval(), tokenizer, texts)
    # They are vectors of different texts: an agreement of equal vectors would say nothing.
    assert (vectors @ vectors.T - 2 * torch.eye(len(texts))).max() < 0.999


@pytest.mark.parametrize("kind", ["bert", "electra", "roberta", "xlm-roberta", "camembert"])
def test_encoders_with_a_table_of_positions(tiny_tokenizer, texts_of, kind):
    options = {"embedding_size": 32} if kind == "electra" else {}
    if kind in ("roberta", "xlm-roberta", "camembert"):
        options["pad_token_id"] = 1  # which is the CLS here: such an id has the padding's position, as in transformers
    pooling = PoolingConfig("landmark", granularity=8)
    module = PooledEncoder(encoder_of(kind, **options), pooling).eval()
    assert module.can_pack
    assert_the_same(module, PoolingTokenizer(tiny_tokenizer, pooling, 96), texts_of(LENGTHS, seed=3))


def test_results_do_not_depend_on_the_other_texts(tiny_tokenizer, texts_of):
    pooling = PoolingConfig("landmark", granularity=8)
    tokenizer, module = PoolingTokenizer(tiny_tokenizer, pooling, 96), PooledEncoder(encoder_of("modernbert"), pooling)
    layouts = list(tokenizer.layouts(texts_of(LENGTHS, seed=3)))
    with torch.no_grad():
        wanted = module.forward_packed(**tokenizer.pack(layouts))
        backwards = module.forward_packed(**tokenizer.pack(layouts[::-1])).flip(0)
        without = module.forward_packed(**tokenizer.pack(layouts[2:]))
    torch.testing.assert_close(backwards, wanted, atol=1e-5, rtol=0)
    torch.testing.assert_close(without, wanted[2:], atol=1e-5, rtol=0)


def dense_attention(query, key, value, bounds, half_window):
    """What packed attention must be, with the mask of all tokens against all."""
    text = torch.repeat_interleave(torch.arange(len(bounds) - 1), bounds.diff().long())
    steps = torch.arange(len(text))
    seen = text[:, None] == text
    if half_window is not None:
        seen &= (steps[:, None] - steps).abs() <= half_window
    states = (part.transpose(0, 1) for part in (query, key, value))
    return functional.scaled_dot_product_attention(*states, attn_mask=seen).transpose(0, 1)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    half_window=st.sampled_from([None, 0, 1, 3, 5, 8, 50]),
)
def test_attention_of_segments(lengths, half_window):
    generator = torch.Generator().manual_seed(sum(lengths))
    bounds = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    inputs = [torch.randn(sum(lengths), 2, 4, generator=generator, requires_grad=True) for _ in range(3)]
    upstream = torch.randn(sum(lengths), 2, 4, generator=generator)
    segments = Segments(bounds, max(lengths))
    found = attention._anywhere(*inputs, segments=segments, half_window=half_window, scale=None, dropout=0.0)
    wanted = dense_attention(*inputs, bounds, half_window)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    for own, reference in zip(
        torch.autograd.grad(found, inputs, upstream), torch.autograd.grad(wanted, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(own, reference, atol=1e-5, rtol=0)


def test_local_attention_is_linear_in_memory():
    cells = {}
    for length in (2_000, 20_000):
        groups = plan_groups(np.array([length]), 64, 128, torch.device("cpu"))
        assert [type(group) for group in groups] == [Blocks]
        cells[length] = groups[0].mask.numel()
    assert cells[20_000] < 10.5 * cells[2_000]
    assert cells[2_000] < 2_000 * 200


@pytest.mark.parametrize("distance", [8, 9])
def test_the_window_reaches_as_far_as_padded(tiny_tokenizer, distance):
    """A token 8 places away is seen through one local layer, one 9 places away is not."""
    encoder = encoder_of("modernbert", num_hidden_layers=1, layer_types=["sliding_attention"])
    module = PooledEncoder(encoder, PoolingConfig("cls"))
    ids = torch.arange(10, 70)
    changed = ids.clone()
    changed[30] += 100
    with torch.no_grad():
        states = [module.hidden_states_packed(own, torch.tensor([0, 60]), 60) for own in (ids, changed)]
        padded = [module.hidden_states(own[None], torch.ones(1, 60, dtype=torch.long))[0] for own in (ids, changed)]
    for first, second in (states, padded):
        for place in (30 - distance, 30 + distance):
            assert torch.equal(first[place], second[place]) == (distance == 9)


def test_gradient_checkpointing_and_dropout(tiny_tokenizer, texts_of):
    pooling = PoolingConfig("mean")
    tokenizer, module = PoolingTokenizer(tiny_tokenizer, pooling, 96), PooledEncoder(encoder_of("gte"), pooling)
    batch = tokenizer.pack(tokenizer.layouts(texts_of(LENGTHS, seed=3)))
    weights = torch.randn(len(LENGTHS), 32)
    module.train()

    def run():
        torch.manual_seed(7)
        return gradients_of(module, module.forward_packed(**batch), weights)

    wanted = run()
    module.encoder.gradient_checkpointing_enable()
    for name, gradient in run().items():
        torch.testing.assert_close(gradient, wanted[name], atol=1e-5, rtol=0)
    module.eval()
    assert (gradients_of(module, module.forward_packed(**batch), weights)[name] - wanted[name]).abs().max() > 1e-4


def test_bfloat16_is_near_float32(tiny_tokenizer, texts_of):
    for kind in ("modernbert", "gte"):
        pooling = PoolingConfig("mean")
        tokenizer = PoolingTokenizer(tiny_tokenizer, pooling, 96)
        module = PooledEncoder(encoder_of(kind, initializer_range=0.1), pooling).eval()
        batch = tokenizer.pack(tokenizer.layouts(texts_of(LENGTHS, seed=3)))
        with torch.no_grad():
            exact = module.forward_packed(**batch)
            with torch.autocast("cpu", torch.bfloat16):
                near = module.forward_packed(**batch)
        assert near.dtype == torch.float32
        torch.testing.assert_close(near, exact, atol=0.03, rtol=0)
        assert not torch.equal(near, exact)


def test_the_flash_kernel_is_asked_for_the_same(tiny_tokenizer, texts_of, monkeypatch):
    """Without a GPU the kernel cannot run: its arguments are checked against its signature and answered exactly."""
    signature = inspect.signature(varlen.varlen_attn)
    windows = []

    def answer(*args, **options):
        given = signature.bind(*args, **options)
        given.apply_defaults()
        query, key, value, bounds, other, longest, also = list(given.arguments.values())[:7]
        assert bounds is other
        assert bounds.dtype == torch.int32
        assert longest == also == int(bounds.diff().max())
        left, right = given.arguments["window_size"]
        assert left == right
        windows.append(left)
        return dense_attention(query, key, value, bounds, None if left == -1 else left)

    def always_flash(*args, segments, half_window, scale, dropout):
        return attention._varlen(*args, segments=segments, half_window=half_window, scale=scale)

    pooling = PoolingConfig("landmark", granularity=8)
    tokenizer, module = PoolingTokenizer(tiny_tokenizer, pooling, 96), PooledEncoder(encoder_of("modernbert"), pooling)
    layouts = tokenizer.layouts(texts_of(LENGTHS, seed=3))
    monkeypatch.setattr(varlen, "varlen_attn", answer)
    monkeypatch.setattr(attention, "_anywhere", always_flash)
    monkeypatch.setattr(modernbert, "HAS_KERNEL", False)
    with torch.no_grad():
        torch.testing.assert_close(
            module.forward_packed(**tokenizer.pack(layouts)), module(**tokenizer.pad(layouts)), atol=1e-5, rtol=0
        )
    assert windows == [-1, 8]


@pytest.mark.parametrize(("capability", "runs"), [((7, 0), False), ((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_the_flash_kernel_is_not_asked_on_older_gpus(monkeypatch, capability, runs):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.version, "hip", None)
    assert attention.has_flash_kernel(torch.device("cuda", 0)) == runs
    assert not attention.has_flash_kernel(torch.device("cpu"))


def test_what_would_look_across_texts_is_refused(tiny_tokenizer, texts_of):
    pooling = PoolingConfig("mean")
    tokenizer = PoolingTokenizer(tiny_tokenizer, pooling, 96)
    batch = tokenizer.pack(tokenizer.layouts(["a b", "c d"]))

    def refused(encoder, reason):
        module = PooledEncoder(encoder, pooling)
        with pytest.raises(PackedAttentionError, match=reason):
            module.forward_packed(**batch)
        return module.can_pack

    assert not refused(encoder_of("mpnet"), "model type 'mpnet' is not known to keep packed texts apart; known: modern")
    eager = encoder_of("modernbert")
    eager.set_attn_implementation("eager")
    assert not refused(eager, "attention implementation is 'eager'; packed batches need 'sdpa'")
    decoder = encoder_of("bert", is_decoder=True)
    assert not refused(decoder, "a decoder")
    # An attention that does not ask who may see whom.
    deaf = encoder_of("bert")
    layer = deaf.encoder.layer[1].attention.self
    layer.forward = lambda hidden, *args, **options: (hidden, None)
    assert refused(deaf, "1 of 2 layers of BertModel kept texts apart")
    causal = encoder_of("gte")
    causal.layers[0].self_attn.is_causal = True
    assert refused(causal, "GteAttention: packed texts cannot be combined with is_causal")
    module = PooledEncoder(encoder_of("gte"), pooling)
    module.encoder.config._attn_implementation = attention.NAME
    segments = Segments(batch["cu_seqlens"], batch["max_seqlen"])
    mask = torch.zeros(1, 1, len(batch["input_ids"]), len(batch["input_ids"]))
    with pytest.raises(PackedAttentionError, match="attention_mask"):
        module.encoder(batch["input_ids"][None], attention_mask=mask, packed_segments=segments)


def test_padded_batches_stay_as_they_were(tiny_model_folder, texts_of, tmp_path):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8)
    layouts = embedder.tokenizer.layouts(texts_of(LENGTHS, seed=3))
    padded = embedder.tokenizer.pad(layouts)
    with torch.no_grad():
        before = embedder.module(**padded)
        embedder.module.forward_packed(**embedder.tokenizer.pack(layouts))
        assert torch.equal(embedder.module(**padded), before)
    embedder.save_pretrained(tmp_path / "saved")
    assert attention.NAME not in json.dumps(json.loads((tmp_path / "saved" / "config.json").read_text()))
