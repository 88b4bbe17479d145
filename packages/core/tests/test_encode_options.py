"""The options of encoding: budgets, out of memory, Matryoshka, prompts, bfloat16, several readings, several devices."""

from __future__ import annotations

import multiprocessing
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_core import Embedder, PoolingConfig, PoolingConfigError
from lmk_core.embedder import devices
from lmk_core.embedder.batches import BatchOptions, BatchRunner
from lmk_core.layouts import Layout
from lmk_core.layouts.layout import Layouts

LENGTHS = [0, 1, 150, 90, 2, *[random.Random(1).randint(1, 60) for _ in range(20)]]


@pytest.fixture(scope="module")
def embedder(tiny_model_folder):
    return Embedder.from_pretrained(tiny_model_folder, "landmark", 8, max_length=128)


def runner_of(embedder, packs=True, **options):
    runner = BatchRunner(embedder.module, torch.device("cpu"), 0, BatchOptions(**options))
    runner.packs = packs
    return runner


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 100), max_size=50).map(np.array),
    batch_tokens=st.integers(1, 300),
    packs=st.booleans(),
)
def test_batches_keep_to_the_budget(embedder, lengths, batch_tokens, packs):
    batches = list(runner_of(embedder, packs, batch_tokens=batch_tokens).batches(lengths.astype(np.int64)))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        cost = lengths[batch].sum() if packs else len(batch) * lengths[batch].max()
        assert len(batch) == 1 or cost <= batch_tokens
    longest = [lengths[index] for batch in batches for index in batch]
    assert longest == sorted(lengths, reverse=True)


def test_padded_where_it_cannot_pack(tiny_model_folder, texts_of):
    embedder = Embedder.from_pretrained(tiny_model_folder, "landmark", 8)
    texts = texts_of(LENGTHS)
    packed = embedder.encode(texts)
    landmarks = embedder.encode_landmarks(texts)
    embedder.module.encoder.set_attn_implementation("eager")
    assert not embedder.module.can_pack
    np.testing.assert_allclose(embedder.encode(texts), packed, atol=1e-5)
    for (found, spans), (wanted, same) in zip(embedder.encode_landmarks(texts), landmarks, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4)
        assert spans == same


@pytest.mark.parametrize("packs", [True, False])
def test_out_of_memory_halves_the_budget(embedder, texts_of, packs):
    texts = texts_of(LENGTHS)
    layouts = embedder.tokenizer.layouts(texts)
    with torch.no_grad():
        wanted = runner_of(embedder, packs, batch_tokens=100_000).run(layouts)
    tried = []

    def small_memory(module, args, options):
        tokens = options["input_ids"].numel()
        tried.append(tokens)
        if tokens > 400:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    hook = embedder.module.encoder.register_forward_pre_hook(small_memory, with_kwargs=True)
    try:
        runner = runner_of(embedder, packs, batch_tokens=100_000)
        with torch.no_grad(), pytest.warns(UserWarning, match="out of memory: batches of"):
            found = runner.run(layouts)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert tried[0] > 400
        assert runner.batch_tokens <= 400
        tried.clear()
        with torch.no_grad():
            for batch in runner.batches(layouts.lengths):
                runner.run(layouts.select(batch))
        assert max(tried) <= 400  # the budget stays halved
        tried.clear()
        with torch.no_grad():
            found = runner.run(layouts)  # planned before, as another process plans for this one
        assert max(tried) <= 400
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        too_long = Layouts.from_list([Layout(list(range(5, 500)), [0])])
        with torch.no_grad(), pytest.raises(torch.OutOfMemoryError):
            runner.run(too_long)
    finally:
        hook.remove()


def test_other_errors_are_not_taken_for_memory(embedder):
    broken = Layouts.from_list([Layout([5, 9999], [0]), Layout([5], [0])])
    with torch.no_grad(), pytest.raises((IndexError, RuntimeError), match="index out of range"):
        runner_of(embedder).run(broken)


def test_matryoshka(embedder, texts_of):
    texts = texts_of(LENGTHS)
    whole, short = embedder.encode(texts), embedder.encode(texts, dim=8)
    assert short.shape == (len(texts), 8)
    np.testing.assert_allclose(short, whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(embedder.encode(texts, dim=32), whole, atol=1e-6)
    assert embedder.encode_landmarks(texts, dim=8)[2].vectors.shape[1] == 8
    for dim in (0, 33):
        with pytest.raises(ValueError, match=f"dim: {dim}; valid: 1 to 32"):
            embedder.encode(texts, dim=dim)


def test_prompts(embedder, texts_of):
    texts = texts_of([5, 40, 20])
    prompts = ["query: ", "", "the house of "]
    prefixed = [prompt + text for prompt, text in zip(prompts, texts, strict=True)]
    np.testing.assert_allclose(embedder.encode(texts, prompt=prompts), embedder.encode(prefixed), atol=1e-6)
    one = embedder.encode(texts, prompt="query: ")
    np.testing.assert_allclose(one, embedder.encode([f"query: {text}" for text in texts]), atol=1e-6)
    mean = embedder.with_pooling(PoolingConfig("mean"))
    layouts = mean.tokenizer.layouts(texts, prompt="query: ", include_prompt=False)
    assert layouts[0].pooled[0] > 1
    with torch.no_grad():
        wanted = mean.module(**mean.tokenizer.pad(layouts)).numpy()
    without = mean.encode(texts, prompt="query: ", include_prompt=False)
    np.testing.assert_allclose(without, wanted, atol=1e-5)
    assert np.abs(without - mean.encode(texts, prompt="query: ")).max() > 1e-3
    with pytest.raises(ValueError, match="prompt: 2 prompts for 3 texts"):
        embedder.encode(texts, prompt=["a", "b"])


def test_outputs_and_unknown_options(embedder, texts_of):
    texts = texts_of([5, 40])
    tensor = embedder.encode(texts, output="torch")
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), embedder.encode(texts))
    with pytest.raises(ValueError, match="output: 'list'; valid: numpy, torch"):
        embedder.encode(texts, output="list")
    with pytest.raises(TypeError, match="batch_size: no option; valid: max_length, batch_tokens"):
        embedder.encode(texts, batch_size=32)
    with pytest.raises(ValueError, match="batch_tokens: 0 is not an integer of at least 1"):
        embedder.encode(texts, batch_tokens=0)


def test_bfloat16(embedder, texts_of):
    texts = texts_of([5, 40, 100])
    exact, near = embedder.encode(texts), embedder.encode(texts, bf16=True)
    assert near.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(near, axis=1), 1, atol=1e-5)
    assert 0 < np.abs(near - exact).max() < 0.1


def test_readings_are_what_encode_gives(embedder, texts_of, monkeypatch):
    texts = [text.replace("river", "river.") for text in texts_of(LENGTHS)]
    readings = [
        *(PoolingConfig("landmark", granularity=size) for size in (4, 8, 32)),
        PoolingConfig("multi_cls", every=16),
        PoolingConfig("landmark", granularity="sentence"),
        PoolingConfig("mean"),
    ]
    wanted = [embedder.with_pooling(reading).encode(texts, dim=16) for reading in readings]
    calls, real = [], type(embedder.tokenizer).tokenize

    def tokenize(tokenizer, *args, **options):
        calls.append(options["by_sentence"])
        return real(tokenizer, *args, **options)

    monkeypatch.setattr(type(embedder.tokenizer), "tokenize", tokenize)
    found = embedder.encode_readings(texts, readings, dim=16)
    assert calls == [False, True]  # once for all sizes, once by sentence
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5)
    assert embedder.encode_readings(texts, []) == []
    with pytest.raises(PoolingConfigError, match="no trained latents"):
        embedder.encode_readings(texts, [PoolingConfig("latent_attention")])


def test_pairs_of_texts(embedder):
    pairs = [("the river", "of stone"), ("a", ""), "the garden"]
    with torch.no_grad():
        wanted = embedder.module(**embedder.tokenizer(pairs)).numpy()
    np.testing.assert_allclose(embedder.encode(pairs), wanted, atol=1e-5)


def test_several_devices(embedder, texts_of):
    """Two processes: the same vectors, landmarks and errors as here."""
    texts = texts_of(LENGTHS)
    readings = [embedder.pooling, PoolingConfig("mean")]
    found = embedder.encode_readings(texts, readings, devices=["cpu", "cpu"], batch_tokens=200)
    for own, other in zip(found, embedder.encode_readings(texts, readings), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5)
    with pytest.raises(ValueError, match="devices: an empty list"):
        embedder.encode(texts, devices=[])
    with pytest.raises(RuntimeError, match="float99"):
        embedder.encode(texts, devices=["float99"])


def test_a_process_that_died_before_its_next_batch_is_named(embedder):
    mine, its = multiprocessing.Pipe()
    its.close()
    layouts = embedder.tokenizer.lay_out(embedder.tokenizer.tokenize(["the river"]))
    running = devices.DeviceProcesses([mine], [runner_of(embedder)])
    with pytest.raises(RuntimeError, match=r"a process of encode\(devices=\.\.\.\) died"):
        list(running.run(0, layouts))


def test_parts_are_what_encode_gives(embedder, texts_of, monkeypatch):
    """One start of the processes for all of them, and none for no part."""
    parts = [texts_of([5, 40]), [], texts_of([3, 0, 90], seed=1)]
    starts, real = [], devices._started
    monkeypatch.setattr(devices, "_started", lambda *given: starts.append(1) or real(*given))
    assert list(embedder.encode_parts([], devices=["cpu"])) == []
    assert starts == []
    found = list(embedder.encode_parts(iter(parts), devices=["cpu"], dim=8))
    assert starts == [1]
    for own, part in zip(found, parts, strict=True):
        assert own.shape == (len(part), 8)
        np.testing.assert_allclose(own, embedder.encode(part, dim=8), atol=1e-5)
    for own, part in zip(embedder.encode_parts(parts, landmarks=True), parts, strict=True):
        wanted = embedder.encode_landmarks(part)
        assert [spans for _, spans in own] == [spans for _, spans in wanted]
        for (vectors, _), (same, _) in zip(own, wanted, strict=True):
            np.testing.assert_allclose(vectors, same, atol=1e-4)
    with pytest.raises(TypeError, match="one for all texts"):
        list(embedder.encode_parts(parts, prompt=["a", "b"]))
    with pytest.raises(ValueError, match="the pooling kind 'landmark' only has them, not 'mean'"):
        list(embedder.with_pooling(PoolingConfig("mean")).encode_parts(parts, landmarks=True))


def test_whoever_makes_the_texts_may_train_meanwhile(embedder, texts_of, tmp_path):
    """No gradient is recorded for encoding, and that is nobody else's affair."""
    texts = texts_of([5, 40, 3])
    seen = []

    def stream():
        for text in texts:
            weight = torch.ones(2, requires_grad=True)
            (weight * 2).sum().backward()
            seen.append(weight.grad is not None and not torch.is_inference_mode_enabled())
            yield text

    for _ in embedder.encode_parts([text] for text in stream()):
        seen.append(torch.is_grad_enabled() and not torch.is_inference_mode_enabled())
    embedder.encode_to_file(stream(), tmp_path / "vectors.npy")
    assert seen == [True] * 9
