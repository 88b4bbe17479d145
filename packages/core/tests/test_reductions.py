"""The reductions against plain definitions."""

from __future__ import annotations

import math

import pytest
import torch

from lmk_core import PoolingConfig
from lmk_core.reductions import LatentAttention, MaskedMean, build_reduction, masked_mean


def hidden_and_mask(batch=3, tokens=7, dim=128, seed=0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(batch, tokens, dim, generator=generator)
    mask = torch.rand(batch, tokens, generator=generator) < 0.5
    mask[:, 0] = True
    return hidden, mask


def test_masked_mean_is_the_mean_of_the_selected():
    hidden, mask = hidden_and_mask()
    for row, result in enumerate(masked_mean(hidden, mask)):
        torch.testing.assert_close(result, hidden[row][mask[row]].mean(0))


def test_masked_mean_is_float32_and_ignores_what_is_not_selected():
    hidden, mask = hidden_and_mask()
    expected = masked_mean(hidden.bfloat16().float(), mask)
    hidden = hidden.masked_fill(~mask[..., None], float("nan")).bfloat16().requires_grad_()
    result = masked_mean(hidden, mask)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, expected)
    result.sum().backward()
    assert (hidden.grad[~mask] == 0).all()
    assert (hidden.grad[mask] > 0).all()


def test_a_row_without_a_pooled_position_gives_zeros():
    assert (masked_mean(torch.ones(1, 3, 4), torch.zeros(1, 3, dtype=torch.bool)) == 0).all()


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_latent_attention_follows_the_paper(heads):
    """Token by token and head by head, in float64."""
    dim, latents = 16, 5
    hidden, mask = hidden_and_mask(dim=dim)
    module = LatentAttention(dim, latents, heads)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.3)
    result = module(hidden, mask)
    module, hidden = module.double(), hidden.double()

    def norm(vector, layer):
        centred = vector - vector.mean()
        return centred / torch.sqrt((centred**2).mean() + layer.eps) * layer.weight + layer.bias

    latents = torch.stack([norm(latent, module.latent_norm) for latent in module.latents])
    keys, values = latents @ module.key.weight.T, latents @ module.value.weight.T
    for row in range(len(hidden)):
        total = torch.zeros(dim, dtype=torch.float64)
        for token in mask[row].nonzero().flatten():
            query = module.query.weight @ hidden[row, token]
            normed, attended = norm(query, module.attention_norm), []
            for head in range(heads):
                part = slice(head * dim // heads, (head + 1) * dim // heads)
                scores = keys[:, part] @ normed[part] / math.sqrt(dim // heads)
                attended.append(torch.softmax(scores, 0) @ values[:, part])
            mixed = module.output.weight @ torch.cat(attended) + query
            inner = module.ffn[0].weight @ norm(mixed, module.ffn_norm) + module.ffn[0].bias
            inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
            total += module.ffn[2].weight @ inner + module.ffn[2].bias + mixed
        torch.testing.assert_close(result[row].double(), total / mask[row].sum(), atol=1e-5, rtol=1e-5)


def test_latent_attention_takes_part_from_the_start():
    """At a real width: attention chooses among the latents, and what it brings is a fair share of the residual."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = LatentAttention(768)
    hidden = torch.randn(4, 32, 768, generator=generator)
    branches, seen = [], []
    module.output.register_forward_hook(lambda layer, inputs, output: branches.append(output))
    for layer in (module.query, module.key, module.attention_norm):
        layer.register_forward_hook(lambda layer, inputs, output: seen.append(output))
    with torch.no_grad():
        module(hidden, torch.ones(4, 32, dtype=torch.bool))
    query, normed, keys = seen
    scores = torch.einsum("bthd,lhd->bthl", normed.unflatten(-1, (12, 64)), keys.unflatten(-1, (12, 64))) / 8
    weights = scores.softmax(-1)
    # Uniform is 1/64 = 0.016 each, and an entropy of log(64).
    assert 0.3 < scores.std() < 1.5
    assert weights.max(-1).values.mean() > 2 / 64
    assert -(weights * weights.log()).sum(-1).mean() < 0.98 * math.log(64)
    assert 0.03 < branches[0].norm(dim=-1).mean() / query.norm(dim=-1).mean() < 1
    # Not the same for every token: what it brings depends on the query.
    assert branches[0].std(dim=(0, 1)).norm() > 0.02 * query.norm(dim=-1).mean()


def test_latent_attention_under_autocast_is_float32_in_the_mean_alone():
    hidden, mask = hidden_and_mask(dim=32)
    module, types = LatentAttention(32, 4), {}
    for name in ("query", "key", "value", "output", "ffn"):
        layer = getattr(module, name)
        layer.register_forward_hook(lambda layer, inputs, output, name=name: types.update({name: output.dtype}))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module(hidden, mask).dtype == torch.float32
    assert set(types.values()) == {torch.bfloat16}
    module(hidden.bfloat16(), mask)
    assert set(types.values()) == {torch.float32}


def test_latent_attention_trains_and_takes_any_float_type():
    hidden, mask = hidden_and_mask()
    module = LatentAttention(128)
    assert module.heads == 2
    assert module.latents.shape == (64, 128)
    assert LatentAttention(32).heads == 1
    result = module(hidden.bfloat16(), mask)
    assert result.dtype == torch.float32
    result.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in module.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = module(hidden, mask)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, module(hidden, mask), atol=0.05, rtol=0.05)
    with pytest.raises(ValueError, match="3 does not divide"):
        LatentAttention(128, heads=3)


def test_build_reduction():
    assert isinstance(
        build_reduction(PoolingConfig("latent_attention", num_latents=4, latent_heads=2), 16), LatentAttention
    )
    for kind in ("cls", "multi_cls", "mean", "mean_at_k", "landmark"):
        assert isinstance(build_reduction(PoolingConfig(kind), 16), MaskedMean)
