"""The shorter way through packed texts: the same numbers and gradients, and only where it may be taken."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from transformers import ModernBertConfig, ModernBertModel

from lmk_core import PooledEncoder, PoolingConfig
from lmk_core.encoders.packed import modernbert
from lmk_core.encoders.packed.fused import fused_attention
from lmk_core.encoders.packed.gated import gated_gelu
from lmk_core.encoders.packed.groups import Blocks, plan_groups
from lmk_core.encoders.packed.segments import Segments

# A window of 8 to either side: blocks, a padded rectangle, one without padding, and single tokens.
LENGTHS = np.array([90, 41, 20, 20, 19, 7, 7, 3, 1])
CPU = torch.device("cpu")


def encoder(**options):
    torch.manual_seed(1)
    config = ModernBertConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=2,
        global_attn_every_n_layers=2,
        local_attention=16,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
        **options,
    )
    return PooledEncoder(ModernBertModel(config), PoolingConfig("mean")).train()


def run(module, seed=None):
    """Vectors of texts of LENGTHS, and the gradients of a weighted sum of them."""
    drawn = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 64, (int(LENGTHS.sum()),), generator=drawn)
    if seed is not None:
        torch.manual_seed(seed)
    bounds = torch.from_numpy(np.append(0, np.cumsum(LENGTHS)))
    texts = torch.from_numpy(np.repeat(np.arange(len(LENGTHS)), LENGTHS))
    vectors = module.forward_packed(ids, bounds, int(LENGTHS.max()), torch.arange(len(ids)), texts)
    module.zero_grad()
    (vectors * torch.randn(vectors.shape, generator=drawn)).sum().backward()
    return vectors.detach(), {name: value.grad.clone() for name, value in module.named_parameters()}


def assert_equal(found, wanted, tolerance=1e-5):
    torch.testing.assert_close(found[0], wanted[0], atol=tolerance, rtol=0)
    for name, gradient in wanted[1].items():
        torch.testing.assert_close(found[1][name], gradient, atol=tolerance * max(1, gradient.abs().max()), rtol=0)


@pytest.fixture
def calls(monkeypatch):
    made = []

    def counted(*args):
        made.append(1)
        return fused_attention(*args)

    monkeypatch.setattr(modernbert, "fused_attention", counted)
    return made


def test_both_ways_give_the_same(monkeypatch, calls):
    found = run(encoder())
    assert len(calls) == 3
    monkeypatch.setattr(modernbert, "HAS_KERNEL", False)
    monkeypatch.setattr(modernbert, "PackedModernBertMLP", modernbert.ModernBertMLP)
    assert_equal(found, run(encoder()))
    assert len(calls) == 3


def test_dropout_of_attention_takes_the_longer_way(calls):
    module = encoder(attention_dropout=0.5)
    dropped = run(module, seed=1)
    assert not calls
    assert not torch.allclose(dropped[0], run(module, seed=2)[0], atol=1e-3)
    run(module.eval())
    assert len(calls) == 3


def test_other_dropout_and_checkpointing_are_kept(calls):
    module = encoder(mlp_dropout=0.3, embedding_dropout=0.3)
    wanted = run(module, seed=1)
    assert len(calls) == 3
    module.encoder.gradient_checkpointing_enable()
    assert_equal(run(module, seed=1), wanted)
    assert len(calls) == 9


def test_autocast_takes_the_longer_way(calls):
    with torch.autocast("cpu", torch.bfloat16):
        run(encoder())
    assert not calls


def test_it_travels(tmp_path):
    module = encoder()
    wanted = run(module)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_equal(run(other), wanted, tolerance=0)
    module.encoder.save_pretrained(tmp_path)
    again = PooledEncoder(ModernBertModel.from_pretrained(tmp_path), PoolingConfig("mean")).train()
    assert_equal(run(again), wanted, tolerance=0)
    assert "Packed" not in (tmp_path / "config.json").read_text()


@pytest.mark.parametrize("half_window", [None, 2])
def test_the_gradient_of_attention(half_window):
    lengths = np.array([9, 4, 3, 3, 1])
    groups = plan_groups(lengths, half_window, 8, CPU)
    assert any(isinstance(group, Blocks) for group in groups) == (half_window is not None)
    for group in groups:  # masks in the precision of the check
        if group.mask is not None:
            object.__setattr__(group, "mask", group.mask.double())
    torch.manual_seed(0)
    qkv = torch.randn(20, 3 * 2 * 4, dtype=torch.float64, requires_grad=True)
    positions = Segments(torch.from_numpy(np.append(0, np.cumsum(lengths))), 9).positions(20)
    angles = positions[:, None] * torch.tensor([1.0, 0.3], dtype=torch.float64)

    def attend(states):
        return fused_attention(states.clone(), angles.cos(), angles.sin(), groups, 0.5)

    assert torch.autograd.gradcheck(attend, qkv, atol=1e-6)


def test_the_gradient_of_the_gated_gelu():
    states = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(gated_gelu(states), torch.nn.functional.gelu(states[:, :3]) * states[:, 3:])
    assert torch.autograd.gradcheck(gated_gelu, states)
