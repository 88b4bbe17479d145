"""`PoolingConfig` and the draw of a chunk size."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError

import pytest

from lmk_core import NullRecorder, PoolingConfig, PoolingConfigError, Recorder, draw_granularity
from lmk_core.pooling import KINDS

CANONICAL = [
    {"kind": "cls"},
    {"kind": "multi_cls", "every": 128},
    {"kind": "mean"},
    {"kind": "mean_at_k", "k": 64},
    {"kind": "latent_attention", "num_latents": 64},
    {"kind": "latent_attention", "num_latents": 8, "latent_heads": 2},
    {"kind": "landmark", "granularity": 32},
    {"kind": "landmark", "granularity": [32, 64, 128, 256]},
    {"kind": "landmark", "granularity": "sentence"},
    {"kind": "landmark", "granularity": 128, "overflow": "budget"},
]


@pytest.mark.parametrize("values", CANONICAL, ids=str)
def test_dictionary_round_trip(values):
    config = PoolingConfig.from_dict(values)
    assert config.to_dict() == values
    assert PoolingConfig.from_dict(config.to_dict()) == config
    assert hash(config) == hash(PoolingConfig.from_dict(values))


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_written_out(kind):
    expected = next(values for values in CANONICAL if values["kind"] == kind)
    assert PoolingConfig.from_dict({"kind": kind}).to_dict() == expected
    assert PoolingConfig(kind) == PoolingConfig.from_dict(expected)


def test_equal_meanings_are_equal_configs():
    assert PoolingConfig("landmark", granularity=(64, 32)) == PoolingConfig("landmark", granularity=(32, 64))
    assert PoolingConfig.from_dict({"kind": "landmark", "granularity": [32]}).to_dict()["granularity"] == 32
    assert PoolingConfig.from_dict({"kind": "landmark", "overflow": "cut"}) == PoolingConfig("landmark")
    assert PoolingConfig.from_dict({"kind": "cls", "granularity": None, "overflow": "cut"}) == PoolingConfig("cls")


@pytest.mark.parametrize(
    ("values", "key", "says"),
    [
        ({}, "kind", "valid: cls, multi_cls, mean"),
        ({"kind": "max"}, "kind", "valid: cls, multi_cls, mean"),
        ({"kind": None}, "kind", "valid: cls"),
        ({"kind": ["cls"]}, "kind", "valid: cls"),
        ({"kind": "cls", "x": 1}, "x", "valid: kind$"),
        ({"kind": "landmark", "size": 3}, "size", "valid: kind, granularity, overflow"),
        ({"kind": "cls", "granularity": 32}, "granularity", "does not apply"),
        ({"kind": "landmark", "every": 32}, "every", "its keys: kind, granularity, overflow"),
        ({"kind": "mean", "overflow": "budget"}, "overflow", "does not apply"),
        ({"kind": "landmark", "overflow": "drop"}, "overflow", "valid: cut, budget"),
        ({"kind": "landmark", "granularity": 0}, "granularity", "at least 1"),
        ({"kind": "landmark", "granularity": True}, "granularity", "at least 1"),
        ({"kind": "landmark", "granularity": "32"}, "granularity", "'sentence'"),
        ({"kind": "landmark", "granularity": []}, "granularity", "list"),
        ({"kind": "landmark", "granularity": [32, 32]}, "granularity", "different"),
        ({"kind": "landmark", "granularity": [32, "sentence"]}, "granularity", "different"),
        ({"kind": "mean_at_k", "k": 0}, "k", "at least 1"),
        ({"kind": "multi_cls", "every": 1.5}, "every", "integer"),
    ],
)
def test_errors_name_the_key_and_the_valid_values(values, key, says):
    with pytest.raises(PoolingConfigError, match=says) as caught:
        PoolingConfig.from_dict(values)
    assert caught.value.key == key
    assert str(caught.value).startswith(f"{key}:")


def test_a_pooling_must_be_a_mapping():
    with pytest.raises(PoolingConfigError, match="mapping") as caught:
        PoolingConfig.from_dict("landmark")
    assert caught.value.key is None


def test_with_granularity():
    config = PoolingConfig("landmark", granularity=(32, 64), overflow="budget")
    assert config.is_variable
    assert config.with_granularity(128) == PoolingConfig("landmark", granularity=128, overflow="budget")
    assert not config.with_granularity("sentence").is_variable
    with pytest.raises(PoolingConfigError) as caught:
        PoolingConfig("mean").with_granularity(32)
    assert caught.value.key == "granularity"
    with pytest.raises(FrozenInstanceError):
        config.kind = "cls"


def test_the_draw_is_determined_by_its_key_and_uniform():
    sizes = (32, 64, 128, 256)
    keys = [(epoch, row, slot) for epoch in range(2) for row in range(1000) for slot in (0, 1)]
    draws = [draw_granularity(sizes, 0, *key) for key in keys]
    assert draws == [draw_granularity(sizes, 0, *key) for key in keys]
    counts = Counter(draws)
    # 4000 draws of probability 1/4: a standard deviation of 27.
    assert all(abs(counts[size] - 1000) < 110 for size in sizes)
    assert draws != [draw_granularity(sizes, 1, *key) for key in keys]
    # Neighbouring keys are independent: a pair agrees in a quarter of the cases (standard deviation 19).
    agree = sum(a == b for a, b in zip(draws[::2], draws[1::2], strict=True))
    assert abs(agree - 500) < 80
    # The same numbers on every machine and in every version.
    assert [draw_granularity(sizes, 0, 0, row) for row in range(6)] == GOLDEN_DRAWS
    # (1, 23) and (12, 3) are different keys.
    assert draw_granularity(range(10**6), 1, 23) != draw_granularity(range(10**6), 12, 3)
    with pytest.raises(ValueError, match="at least one"):
        draw_granularity((), 0)


GOLDEN_DRAWS = [128, 64, 32, 128, 64, 128]


def test_null_recorder_is_a_recorder():
    recorder = NullRecorder()
    assert isinstance(recorder, Recorder)
    recorder.event("started", cell="x")
    recorder.metrics({"train/loss": 0.5}, step=1)
    recorder.progress(1, 2, unit="text")


def test_importing_the_package_does_not_import_torch():
    program = (
        "import sys, lmk_core, lmk_core.pooling, lmk_core.recording, lmk_core.layouts, lmk_core.embedder, "
        "lmk_core.encoders, lmk_core.reductions; dir(lmk_core); lmk_core.layouts.Layout\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert lmk_core.Embedder.__name__ == 'Embedder' and 'torch' in sys.modules\n"
        "assert lmk_core.layouts.PoolingTokenizer is lmk_core.PoolingTokenizer"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_an_unknown_name_is_an_attribute_error():
    import lmk_core

    with pytest.raises(AttributeError, match="has no attribute 'Embeder'"):
        _ = lmk_core.Embeder
