"""The decoder's attention: blocks against whole matrices, FlexAttention's question against both."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from lmk_train.retromae.attention import Sight, blocked_attention, dense_attention
from lmk_train.retromae.decoder import PooledDecoder, rotate
from lmk_train.retromae.masks import hide_patterns

LENGTHS = [1, 40, 7, 130, 2]


def make_sight(lengths=LENGTHS, seed=0):
    draw = np.random.RandomState(seed)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    hidden = np.zeros((128, bounds[-1]), dtype=bool)
    patterns = np.zeros(bounds[-1], dtype=np.int64)
    for start, stop in itertools.pairwise(bounds):
        own, of_tokens = hide_patterns(draw.random_sample(stop - start) < 0.6, 0.5, draw)
        hidden[: len(own), start:stop], patterns[start:stop] = own, of_tokens
    return Sight(tuple(bounds.tolist()), torch.from_numpy(hidden), torch.from_numpy(patterns))


def make_states(tokens, *, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(tokens, 2, 8, dtype=dtype, requires_grad=True) for _ in range(3)]


def test_what_a_position_sees():
    hidden = torch.tensor([[False, False, True, False, False, True], [False, True, False, False, False, False]])
    sight = Sight((0, 4, 6), hidden, torch.tensor([0, 1, 0, 1, 1, 0]))
    assert sight.of(0, slice(0, 4), 4).int().tolist() == [
        [1, 1, 0, 1],  # the first: its own place holds the pooled vector
        [1, 0, 1, 1],  # not itself
        [1, 1, 0, 1],  # hidden from it by its pattern, and itself
        [1, 0, 1, 0],  # not itself, and not what its pattern hides
    ]
    assert sight.of(4, slice(5, 6), 6).int().tolist() == [[1, 0]]


@pytest.mark.parametrize("block", [1, 16, 64, 500])
def test_blocks_are_whole_matrices_forward_and_backward(block):
    sight = make_sight()
    gradients = []
    outputs = []
    for attend in (lambda *qkv: blocked_attention(*qkv, sight, block), lambda *qkv: dense_attention(*qkv, sight)):
        states = make_states(sight.bounds[-1])
        outputs.append(attend(*states))
        (outputs[-1] * torch.linspace(-1, 1, 8)).pow(2).sum().backward()
        gradients.append([state.grad for state in states])
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-5, rtol=0)
    for ours, theirs in zip(*gradients, strict=True):
        assert theirs.abs().max() > 1e-2
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_flex_attention_asks_for_the_same_pairs():
    """Its kernel runs on a GPU; here the same question is asked of it with whole matrices."""
    from lmk_train.retromae.flex import flex

    sight = make_sight()
    with torch.no_grad():
        states = make_states(sight.bounds[-1])
        torch.testing.assert_close(
            flex(*states, sight, compiled=False), dense_attention(*states, sight), atol=1e-5, rtol=0
        )


def test_flex_attentions_question_is_the_dense_mask():
    """Pair by pair; and no pair that is seen lies in a tile that its kernel would leave out."""
    from torch.nn.attention.flex_attention import create_mask

    from lmk_train.retromae.flex import TILE, block_mask

    sight = make_sight([130, 3, 200, 1])
    tokens = sight.bounds[-1]
    behind = -tokens % TILE
    mask = block_mask(sight, behind)
    whole = tokens + behind
    asked = create_mask(mask.mask_mod, 1, 1, whole, whole, device="cpu")[0, 0]
    wanted = torch.zeros(whole, whole, dtype=torch.bool)
    for start, stop in itertools.pairwise(sight.bounds):
        wanted[start:stop, start:stop] = sight.of(start, slice(start, stop), stop)
    assert torch.equal(asked[:tokens], wanted[:tokens])
    assert asked.any(dim=1).all(), "a row that sees nothing is NaN"

    listed = torch.zeros(whole // TILE, whole // TILE, dtype=torch.bool)
    for row, (count, tiles) in enumerate(zip(mask.kv_num_blocks[0, 0], mask.kv_indices[0, 0], strict=True)):
        listed[row, tiles[:count].long()] = True
    assert not asked[~listed.repeat_interleave(TILE, 0).repeat_interleave(TILE, 1)].any()
    assert not listed.all()


def test_tiles_without_a_common_text_are_left_out():
    from lmk_train.retromae.flex import TILE, block_mask

    sight = make_sight([TILE, TILE // 2, TILE, 3 * TILE // 2])
    mask = block_mask(sight)
    assert mask.kv_num_blocks[0, 0].tolist() == [1, 2, 3, 2]
    assert [set(row[:count].tolist()) for row, count in zip(mask.kv_indices[0, 0], (1, 2, 3, 2), strict=True)] == [
        {0},
        {1, 2},
        {1, 2, 3},
        {2, 3},
    ]


def decoder_inputs(lengths=(9, 5)):
    torch.manual_seed(0)
    sight = make_sight(list(lengths))
    texts = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    positions = torch.cat([torch.arange(length) for length in lengths])
    return torch.randn(len(lengths), 16), torch.randn(sum(lengths), 16), sight, positions, texts


def test_the_decoder_sees_order():
    """Of gte the published code's decoder has no positions at all: permuted tokens would be the same to it."""
    torch.manual_seed(1)
    decoder = PooledDecoder(16, 2, 32, std=0.3)
    pooled, embedded, sight, positions, texts = decoder_inputs()
    open_sight = Sight(sight.bounds, torch.zeros_like(sight.hidden), sight.patterns)
    swapped = embedded.clone()
    swapped[[2, 5]] = embedded[[5, 2]]
    for blind, differs in ((torch.zeros_like(positions), False), (positions, True)):
        before = decoder(pooled, embedded, open_sight, blind, texts)
        after = decoder(pooled, swapped, open_sight, blind, texts)
        assert (bool((before - after)[[1, 3, 4, 6, 7, 8]].abs().max() > 1e-4)) is differs
        assert torch.equal(before[9:], after[9:])


def test_the_decoder_knows_of_the_encoder_what_is_in_the_pooled_vector_alone():
    decoder = PooledDecoder(16, 2, 32, std=0.3)
    pooled, embedded, sight, positions, texts = decoder_inputs()
    before = decoder(pooled, embedded, sight, positions, texts)
    # The token under the pooled vector, and a position's own token, are never read.
    changed = embedded.clone()
    changed[0] += 1
    changed[4] += 1
    after = decoder(pooled, changed, sight, positions, texts)
    torch.testing.assert_close(after[[0, 4]][1], before[[0, 4]][1])
    other = pooled.clone()
    other[0] *= -1
    moved = decoder(other, embedded, sight, positions, texts)
    assert (moved[:9] - before[:9]).abs().amin(dim=0).max() > 1e-3
    assert torch.equal(moved[9:], before[9:])


def test_rotary_products_depend_on_distance_alone():
    torch.manual_seed(0)
    query, key = torch.randn(1, 2, 8), torch.randn(1, 2, 8)

    def product(q, k):
        return (rotate(query, torch.tensor([q])) * rotate(key, torch.tensor([k]))).sum()

    torch.testing.assert_close(product(3, 7), product(103, 107), atol=1e-4, rtol=0)
    assert abs(product(3, 7) - product(7, 3)) > 1e-3


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="no 3 heads"):
        PooledDecoder(16, 3, 32)
