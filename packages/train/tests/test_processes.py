"""Two processes compute what one does: losses, gradients, and how they fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from started import run_pair
from toy_encoder import ToyEncoder
from two_processes import CHUNKS, LOSSES, ROWS, SPLITS, gradients, objective, share

WORKER = Path(__file__).with_name("two_processes.py")


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> list[dict]:
    return run_pair(WORKER, tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_one_process(pair, name, split):
    """Whatever each process' share and chunk: the whole batch in one graph has the same loss and gradient."""
    encoder = ToyEncoder()
    texts, targets = share(0, len(ROWS))
    whole = objective(texts, targets, LOSSES[name])(encoder(texts))
    whole.loss.backward()
    for chunk in CHUNKS:
        for found in (one[f"{name}-{split}-{chunk}"] for one in pair):
            assert found["loss"] == pytest.approx(whole.loss.item(), rel=1e-12)
            assert found["masked"] == int(whole.masked)
            for ours, theirs in zip(found["gradients"], gradients(encoder), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    assert (int(whole.masked) > 0) == (name == "masked")
    assert pair[0][f"{name}-one-15"]["chunks"] != pair[1][f"{name}-one-15"]["chunks"]


def test_unequal_rows_are_gathered_with_exact_gradients(pair):
    first, second = (one["gathers_unequal_rows"] for one in pair)
    expected = torch.tensor([[0.0, 1.0], [10.0, 11.0], [12.0, 13.0], [14.0, 15.0]])
    weights = torch.arange(8.0).reshape(4, 2) * 2 + 100
    for found in (first, second):
        assert torch.equal(found["all"], expected)
        assert found["numbers"].tolist() == [0, 0, 1, 2]
    assert torch.equal(first["gradient"], weights[:1])
    assert torch.equal(second["gradient"], weights[1:])


def test_gradients_are_summed_once_whatever_the_number_of_chunks(pair):
    """Only behind the last chunk: a sum for every chunk is what makes GradCache slow."""
    parameters = sum(parameter.numel() for parameter in ToyEncoder().parameters())
    for found in (one["counts_collectives"] for one in pair):
        one, many = found[10_000], found[15]
        assert many["chunks"] > 5 * one["chunks"]
        assert many["sizes"] == one["sizes"]
        assert many["sizes"].count(parameters) == 1


def test_all_halve_the_chunk_when_one_is_out_of_memory(pair):
    first, second = (one["halves_together"] for one in pair)
    assert (first["failed"], second["failed"]) == (0, 2)
    assert first["chunk_tokens"] == second["chunk_tokens"] == 25
    whole = pair[0]["plain-equal-None"]
    for found in (first, second):
        for ours, theirs in zip(found["gradients"], whole["gradients"], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("where", ["gather", "backward"])
def test_all_halve_the_chunk_when_one_has_no_room_for_the_loss(pair, where):
    """Memory that runs out before a gathering of vectors must not leave the others in it."""
    first, second = (one["halves_when_the_loss_does_not_fit"][where] for one in pair)
    assert (first["asked"], second["asked"]) == (0, 1)
    assert first["chunk_tokens"] == second["chunk_tokens"] < 100
    whole = pair[0]["bidirectional-unequal-None"]
    for found in (first, second):
        for ours, theirs in zip(found["gradients"], whole["gradients"], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_an_error_in_one_process_ends_both(pair):
    first, second = (one["fails_together"] for one in pair)
    assert first == "PeerFailedError: another process of this training failed in this step; see its own error"
    assert second == "KeyError: 'only here'"


@pytest.mark.parametrize("pieces", ["one", "each"])
def test_a_parameter_that_one_process_alone_uses(pair, pieces):
    for found in (one["sums_what_only_some_have"][pieces] for one in pair):
        assert found[0].tolist() == [3.0, 3.0]
        assert found[1].tolist() == [2.0, 2.0]
        assert found[2] is None


def test_all_start_with_the_first_ones_weights(pair):
    first, second = (one["takes_the_first_weights"] for one in pair)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert second["running_mean"].tolist() == [0.0, 0.0, 0.0]
