from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest
from pydantic import ValidationError

from lmk_core.pooling import PoolingConfig
from lmk_train.config import OptimConfig, RuntimeConfig, TrainConfig
from lmk_train.modules import warmup_then_decay

BASE = {
    "model": {"path": "models/tiny"},
    "pooling": {"kind": "landmark", "granularity": [32, 64]},
    "data": {"train": ["rows.jsonl"]},
    "optim": {"steps": 100, "batch_size": 8, "learning_rate": 2e-5},
}


def changed(key: str, value: object) -> dict:
    values = copy.deepcopy(BASE)
    *sections, name = key.split(".")
    target = values
    for section in sections:
        target = target.setdefault(section, {})
    target[name] = value
    return values


def test_defaults_and_round_trip():
    config = TrainConfig.model_validate(BASE)
    assert config.pooling == PoolingConfig("landmark", granularity=(32, 64))
    dump = config.model_dump(mode="json")
    assert dump["pooling"] == {"kind": "landmark", "granularity": [32, 64]}
    assert dump["data"] == {
        "train": ["rows.jsonl"],
        "validation": None,
        "negatives": 7,
        "query_max_length": 128,
        "passage_max_length": 512,
        "last_batch": "auto",
        "prompt": None,
        "stream_buffer": None,
        "max_faulty": 0.0,
        "cache": None,
    }
    assert dump["loss"] == {
        "temperature": 0.02,
        "distillation": "auto",
        "teacher_temperature": 1.0,
        "bidirectional": False,
        "mask_duplicates": False,
        "matryoshka": None,
    }
    assert dump["optim"]["gradient_clip"] == 1.0
    assert TrainConfig.model_validate(json.loads(json.dumps(dump))) == config
    assert hash(config) == hash(TrainConfig.model_validate(dump))


def test_numbers_as_yaml_reads_them():
    """YAML 1.1 reads 2e-5 as a string."""
    assert TrainConfig.model_validate(changed("optim.learning_rate", "2e-5")).optim.learning_rate == 2e-5


@pytest.mark.parametrize(
    ("key", "value", "where", "parts"),
    [
        ("optim.step", 3, "optim", ["unknown key 'step'", "did you mean 'steps'", "warmup_steps"]),
        ("optimizer", {}, "", ["unknown key 'optimizer'", "valid keys: model, pooling, data"]),
        ("precision", "fp16", "precision", ["'fp32' or 'bf16'"]),
        ("loss.distillation", "on", "loss.distillation", ["'auto' or 'off'"]),
        ("loss.temperature", 0, "loss.temperature", ["greater than 0"]),
        ("loss.temperature", float("nan"), "loss.temperature", ["finite number"]),
        ("optim.batch_size", 0, "optim.batch_size", ["greater than 0"]),
        ("optim.steps", -1, "optim.steps", ["greater than or equal to 0"]),
        ("optim.betas", [0.9, 1.0], "optim", ["betas", "below 1"]),
        ("optim.warmup_steps", 101, "optim", ["warmup_steps (101)", "steps (100)"]),
        ("data.train", [], "data.train", ["at least 1 item"]),
        ("data.train", "rows.jsonl", "data.train", ["list of files", "'rows.jsonl'"]),
        ("data.query_max_length", 1, "data.query_max_length", ["greater than or equal to 2"]),
        ("pooling", {"kind": "max"}, "pooling", ["'max'", "latent_attention"]),
        ("pooling", {"kind": "cls", "granularity": 3}, "pooling", ["granularity", "'cls'"]),
        ("pooling", "cls", "pooling", ["mapping", "'cls'"]),
        ("pooling", {"kind": "multi_cls"}, "pooling", ["never trained", "landmark"]),
        ("runtime.accelerator", "tpu", "runtime.accelerator", ["'cpu'"]),
        ("model", {}, "model.path", ["required"]),
        ("seed", -1, "seed", ["greater than or equal to 0"]),
    ],
)
def test_errors_name_the_key_and_what_is_valid(key, value, where, parts):
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate(changed(key, value))
    (error,) = caught.value.errors()
    assert ".".join(str(part) for part in error["loc"]) == where
    for part in parts:
        assert part in error["msg"]


def test_the_help_of_the_warm_up_says_what_the_schedule_does():
    help_text = OptimConfig.model_fields["warmup_steps"].description
    assert "from `1 / warmup_steps`" in help_text
    assert warmup_then_decay(4, 8)(0) == 1 / 4


def test_config_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        TrainConfig.model_validate(BASE).optim.steps = 3


def test_every_field_has_help_and_the_identity_is_marked():
    def walk(model, prefix=""):
        for name, field in model.model_fields.items():
            assert field.description, prefix + name
            yield prefix + name, (field.json_schema_extra or {}).get("identity")
            if hasattr(field.annotation, "model_fields"):
                yield from walk(field.annotation, f"{prefix}{name}.")

    marks = {name: mark for name, mark in walk(TrainConfig) if mark is not None}
    transient = {
        *("data.validation", "data.max_faulty", "data.cache", "runtime"),
        *(f"runtime.{name}" for name in RuntimeConfig.model_fields),
    }
    assert marks == dict.fromkeys(["model.path", "data.train"], "content") | dict.fromkeys(transient, "transient")


def test_configuration_imports_nothing_heavy():
    code = (
        "import sys, lmk_train, lmk_train.config, lmk_train.data, lmk_train.loss, lmk_train.modules;"
        "import lmk_train.callbacks;"
        "print([name for name in ('torch', 'lightning', 'transformers', 'torchmetrics') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_unknown_names_of_the_package():
    import lmk_train

    with pytest.raises(AttributeError, match="no attribute 'fit'"):
        lmk_train.fit  # noqa: B018
