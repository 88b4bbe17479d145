"""What a step computes, counted from lengths: against a counter of torch's, and against what was planned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel

from lmk_core.encoders import PooledEncoder
from lmk_core.encoders.packed.groups import plan_groups
from lmk_core.encoders.packed.padding import attention_rows
from lmk_core.layouts import Layouts
from lmk_core.layouts.batch import pad_layouts
from lmk_core.pooling import PoolingConfig
from lmk_train.gradcache import plan_chunks
from lmk_train.throughput import ModelFlops, peak_flops
from lmk_train.throughput.flops import half_windows, pairs_seen
from lmk_train.throughput.padding import attention_padding, makes_rectangles

CPU = torch.device("cpu")
SMALL = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2}


def encoder_of(kind: str, pooling: str = "mean", **options) -> PooledEncoder:
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"), 0)
    config = AutoConfig.for_model(kind, **SMALL, **special, **options)
    return PooledEncoder(AutoModel.from_config(config, attn_implementation="eager"), PoolingConfig(pooling)).train()


def texts_of(lengths: list[int]) -> Layouts:
    """Every token is pooled."""
    bounds = np.cumsum([0, *lengths])
    pooled = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
    return Layouts(np.ones(bounds[-1], dtype=np.int32), bounds, pooled, bounds)


@pytest.mark.parametrize("pooling", ["mean", "latent_attention"])
@pytest.mark.parametrize("kind", ["modernbert", "gte", "bert", "xlm-roberta"])
def test_a_step_computes_what_torch_counts(kind, pooling):
    """Texts of one length within the windows, so that nothing is padded; the eager attention computes nothing twice."""
    encoder, texts = encoder_of(kind, pooling), texts_of([40] * 6)
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):  # of the latents: others are not counted on a CPU
        encoder(**pad_layouts(texts, 0)).sum().backward()
    found, counted = ModelFlops(encoder).training(texts), counter.get_total_flops()
    # Of its 64 latents there are keys and values, of a pooler of one token an output: of all texts but once.
    slack = 0.005 if pooling == "mean" else 0.05
    assert counted * (1 - slack) <= found <= counted * (1 + 1e-9)


def test_without_reduction_or_pooler_the_count_is_exact():
    encoder, texts = encoder_of("modernbert"), texts_of([40] * 6)
    counter = FlopCounterMode(display=False)
    with counter:
        encoder(**pad_layouts(texts, 0)).sum().backward()
    assert ModelFlops(encoder).training(texts) == counter.get_total_flops()


def test_a_token_counts_as_the_formula_of_palm_says():
    """6 N + 12 L H Q T a token, on texts of T tokens that see all of themselves."""
    encoder = encoder_of("gte")
    linear = sum(m.weight.numel() for m in encoder.encoder.modules() if isinstance(m, torch.nn.Linear))
    per_token = 6 * linear + 12 * 3 * 32 * 20
    assert ModelFlops(encoder).training(texts_of([20] * 4)) == 4 * 20 * per_token


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_pairs_are_those_of_the_window(lengths, half_window):
    def seen(length: int) -> int:
        place = np.arange(length)
        return int((np.abs(place[:, None] - place) <= half_window).sum())

    assert pairs_seen(np.array(lengths), half_window).tolist() == [seen(length) for length in lengths]


def test_local_layers_count_their_window():
    encoder = encoder_of("modernbert", local_attention=16, global_attn_every_n_layers=3)
    assert half_windows(encoder) == [None, 8, 8]
    long, short = (ModelFlops(encoder).forward(texts_of([length])) for length in (400, 200))
    assert long - 2 * short == 4 * 32 * ((400**2 - 2 * 200**2) + 2 * 8 * 9)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.sampled_from([None, 0, 3, 8, 64]))
@settings(max_examples=80, deadline=None)
def test_rectangles_are_counted_as_they_are_planned(lengths, half_window):
    lengths = np.array(lengths, dtype=np.int64)
    ordered = -np.sort(-lengths)
    reach = None if half_window is not None and half_window + 1 >= ordered[0] else half_window
    planned = plan_groups(ordered, reach, 32, CPU)
    assert attention_rows(lengths, half_window, 32) == sum(group.rows * group.width for group in planned)


def test_the_padding_of_the_attention_is_that_of_every_layer():
    encoder = encoder_of("modernbert", local_attention=16, global_attn_every_n_layers=3)
    texts = texts_of([100, 60, 7, 6, 6, 5])
    chunks = plan_chunks(texts.lengths, 1000, packed=True)
    own, computed = attention_padding(encoder, texts, chunks)
    assert own == 3 * 184
    # Globally rectangles of like lengths; locally the two long texts in blocks of 8, and the short ones.
    lengths = np.asarray(texts.lengths)
    assert computed == attention_rows(lengths, None, 32) + 2 * attention_rows(lengths, 8, 32)
    assert attention_rows(lengths, 8, 32) == 160 + 4 * 7


def test_a_cpu_makes_rectangles():
    assert makes_rectangles(encoder_of("gte"), CPU, "bf16")


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835.5e12),
        ("NVIDIA H200", 989.4e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("Tesla T4", None),
    ],
)
def test_peaks_are_found_by_the_names_that_drivers_give(name, peak):
    assert peak_flops(name) == peak
