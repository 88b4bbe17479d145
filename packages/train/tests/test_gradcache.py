"""Chunks change memory, never gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy_encoder import ToyEncoder, toy_batch, toy_rows

from lmk_train.config import LossConfig
from lmk_train.gradcache import GradientEngine, plan_chunks
from lmk_train.gradcache.randomness import RandomState
from lmk_train.loss import ContrastiveObjective

SIZES = [3, 1, 4, 2, 4, 3]


def setting(encoder: ToyEncoder, chunk_tokens: int | None):
    texts, targets = toy_batch(*toy_rows(SIZES), scored=[True, False, True, True, False, False])
    objective = ContrastiveObjective(LossConfig(temperature=0.1), logits_at_once=40)
    engine = GradientEngine(encoder, list(encoder.parameters()), chunk_tokens)

    def loss(vectors: torch.Tensor) -> torch.Tensor:
        return objective(vectors[: len(SIZES)], vectors[len(SIZES) :], targets).loss

    return engine, texts, loss


def grads(encoder: ToyEncoder) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in encoder.parameters()]


def whole_graph() -> tuple[torch.Tensor, list[torch.Tensor]]:
    """One batch, one graph, no chunks."""
    encoder = ToyEncoder()
    _, texts, loss = setting(encoder, None)
    value = loss(encoder(texts))
    value.backward()
    return value.detach(), grads(encoder)


def test_chunks_hold_every_text_once_and_no_more_tokens_than_asked():
    lengths = np.random.RandomState(0).randint(1, 40, 300).astype(np.int64)
    for size in (1, 39, 64, 1000, 10**6):
        chunks = plan_chunks(lengths, size)
        assert sorted(np.concatenate(chunks.indices)) == list(range(300))
        padded = [len(one) * lengths[one].max() for one in chunks.indices]
        assert all(tokens <= size or len(one) == 1 for tokens, one in zip(padded, chunks.indices, strict=True))
        assert (chunks.padded, chunks.largest) == (sum(padded), max(padded))
        assert (chunks.tokens, chunks.longest) == (lengths.sum(), lengths.max())
        heads = [lengths[one[0]] for one in chunks.indices]
        assert heads == sorted(heads, reverse=True)


@pytest.mark.parametrize("chunk_tokens", [None, 1, 7, 20, 45, 10_000])
def test_any_chunk_has_the_gradient_of_the_whole_graph(chunk_tokens):
    expected_loss, expected = whole_graph()
    encoder = ToyEncoder()
    engine, texts, loss = setting(encoder, chunk_tokens)
    for _ in range(2):  # the gradients of the step before are no part of it
        passed = engine.run(texts, loss)
    torch.testing.assert_close(passed.loss, expected_loss, rtol=1e-12, atol=0)
    for ours, theirs in zip(grads(encoder), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def test_all_but_one_chunk_are_encoded_twice_and_one_graph_is_held_at_a_time():
    encoder = ToyEncoder()
    engine, texts, loss = setting(encoder, 20)
    count = len(engine.run(texts, loss).chunks.indices)
    graphs = [graph for _, graph in encoder.calls]
    assert graphs == [False] * (count - 1) + [True] + [True] * (count - 1)
    encoder.calls.clear()
    engine.chunk_tokens = 10_000
    engine.run(texts, loss)
    assert encoder.calls == [(len(texts.ids), True)]


class Watched(ToyEncoder):
    """Remembers the vectors of each call."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.seen: list[tuple[tuple, torch.Tensor]] = []

    def forward(self, texts):
        vectors = super().forward(texts)
        self.seen.append((tuple(map(tuple, texts.ids)), vectors.detach().clone()))
        return vectors


def test_with_dropout_the_second_pass_is_the_first_bit_for_bit():
    encoder = Watched(dropout=0.3)
    engine, texts, loss = setting(encoder, 20)
    torch.manual_seed(5)
    engine.run(texts, loss)
    count = (len(encoder.seen) + 1) // 2
    assert count > 3
    first, second = encoder.seen[: count - 1], encoder.seen[count:]
    for (texts_once, once), (texts_again, again) in zip(first, second, strict=True):
        assert texts_once == texts_again
        assert torch.equal(once, again)


def test_with_dropout_the_gradient_is_that_of_what_was_dropped():
    """The same chunks with all graphs held at once, from the same random state."""
    cached, held = ToyEncoder(dropout=0.3), ToyEncoder(dropout=0.3)
    engine, texts, loss = setting(cached, 20)
    torch.manual_seed(5)
    engine.run(texts, loss)
    after = torch.get_rng_state()
    chunks = plan_chunks(texts.lengths, 20).indices
    torch.manual_seed(5)
    joined = torch.cat([held(texts.select(indices)) for indices in chunks])
    loss(joined[np.argsort(np.concatenate(chunks))]).backward()
    for ours, theirs in zip(grads(cached), grads(held), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)
    # The replays leave the generator where the first pass left it.
    assert torch.equal(after, torch.get_rng_state())
    assert not torch.equal(grads(cached)[0], whole_graph()[1][0])


@pytest.mark.parametrize("chunk_tokens", [None, 20])
def test_autocast_is_the_same_in_both_passes(chunk_tokens):
    """A cast that was remembered without its graph would leave weights without a gradient."""
    texts, targets = toy_batch(*toy_rows(SIZES))
    encoder = ToyEncoder(dtype=torch.float32)
    objective = ContrastiveObjective(LossConfig(temperature=0.1))
    engine = GradientEngine(encoder, list(encoder.parameters()), chunk_tokens)

    def loss(vectors):
        return objective(vectors[: len(SIZES)], vectors[len(SIZES) :], targets).loss

    with torch.autocast("cpu", dtype=torch.bfloat16):
        engine.run(texts, loss)
    ours = grads(encoder)
    encoder.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(encoder(texts))
    value.backward()
    for mine, theirs in zip(ours, grads(encoder), strict=True):
        assert mine.abs().sum() > 0
        torch.testing.assert_close(mine, theirs, rtol=0.05, atol=0.02 * float(theirs.abs().max()))


class Cramped(ToyEncoder):
    """Has memory for graphs of so many padded tokens at once, and says how many it was asked for."""

    def __init__(self, room: int, **options) -> None:
        super().__init__(**options)
        self.room, self.failed = room, 0

    def forward(self, texts):
        if len(texts.ids) * int(texts.lengths.max()) > self.room:
            self.failed += 1
            torch.rand(3)  # draws that the repeated step must not notice
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return super().forward(texts)


@pytest.mark.parametrize("chunk_tokens", [None, 200])
@pytest.mark.parametrize("room", [30, 90])
def test_the_chunk_is_halved_until_it_fits_and_kept(chunk_tokens, room):
    encoder = Cramped(room, dropout=0.3)
    engine, texts, loss = setting(encoder, chunk_tokens)
    heard = []
    torch.manual_seed(5)
    engine.run(texts, loss, lambda chunk, reason: heard.append((chunk, reason)))
    assert encoder.failed > 0
    sizes = [chunk for chunk, _ in heard]
    start = chunk_tokens or plan_chunks(texts.lengths, 10**6).padded
    assert sizes == [max(start // 2**n, 11) for n in range(1, len(sizes) + 1)]
    largest = [plan_chunks(texts.lengths, size).largest for size in [start, *sizes]]
    assert largest[-1] <= room < largest[-2]
    assert engine.chunk_tokens == sizes[-1]
    assert "Tried to allocate" in heard[0][1]

    roomy = ToyEncoder(dropout=0.3)
    other, _, _ = setting(roomy, sizes[-1])
    torch.manual_seed(5)
    other.run(texts, loss)
    for ours, theirs in zip(grads(encoder), grads(roomy), strict=True):
        assert torch.equal(ours, theirs)
    before = encoder.failed
    engine.run(texts, loss)
    assert encoder.failed == before


class CrampedBackward(ToyEncoder):
    """Runs out of memory in the backward pass of the first chunks, after some of them have left their gradients."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def forward(self, texts):
        vectors = super().forward(texts)
        if vectors.requires_grad:
            vectors.register_hook(self.fail)
        return vectors

    def fail(self, gradient):
        self.failures -= 1
        if self.failures == 0:
            raise torch.OutOfMemoryError("in backward")


def test_what_a_failed_backward_left_is_no_part_of_the_gradient():
    encoder = CrampedBackward(failures=3)
    engine, texts, loss = setting(encoder, 40)
    engine.run(texts, loss)
    assert engine.chunk_tokens == 20
    for ours, theirs in zip(grads(encoder), whole_graph()[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def test_memory_that_runs_out_in_the_losss_own_backward_halves_the_chunk():
    encoder = ToyEncoder()
    engine, texts, loss = setting(encoder, 40)
    failures = [torch.OutOfMemoryError("on the way back")]

    def fail(gradient):
        if failures:
            raise failures.pop()

    def cramped(vectors):
        value = loss(vectors)
        value.register_hook(fail)
        return value

    engine.run(texts, cramped)
    assert engine.chunk_tokens == 20
    for ours, theirs in zip(grads(encoder), whole_graph()[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def test_the_longest_text_alone_is_the_end():
    engine, texts, loss = setting(Cramped(5), None)
    sizes = []
    with pytest.raises(torch.OutOfMemoryError, match=r"one text of 11 tokens.*data.passage_max_length.*Tried to alloc"):
        engine.run(texts, loss, lambda chunk, reason: sizes.append(chunk))
    assert sizes[-1] == 11


def test_other_errors_are_raised_as_they_are():
    engine, texts, _ = setting(ToyEncoder(), 20)

    def faulty(vectors):
        raise KeyError("loss")

    with pytest.raises(KeyError, match="loss"):
        engine.run(texts, faulty)
    assert engine.chunk_tokens == 20


def test_a_random_state_is_replayed():
    state = RandomState.now(torch.device("cpu"))
    first = torch.rand(5)
    state.restore()
    assert torch.equal(torch.rand(5), first)
