"""Identities: the golden file of the shipped grids, and what every field does to the identity it is part of.

A change of an identity makes users train anew. Where that is meant, write the golden file anew and say so:

    LMK_WRITE_GOLDEN=1 python -m pytest experiments/tests/test_identities.py -k golden
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from lmk_core.pooling import PoolingConfig
from lmk_eval.suites import LOCAL_KINDS, Suite, Task
from lmk_experiments.grids import Plan, canonical, collected, identity, load_grid_file, make_plan
from lmk_train.config import PretrainConfig, TrainConfig

GOLDEN = Path(__file__).parent / "golden_identities.json"
GRIDS = [*collected("paper"), *collected("appendix")]  # the quickstart's data differs from machine to machine


def identities(plan: Plan) -> dict[str, Any]:
    return {
        "pretrainings": {f"{one.row}, seed {one.seed}": one.id for one in plan.pretrainings},
        "trainings": {f"{one.row}, seed {one.seed}": one.id for one in plan.trainings},
        "evaluations": {
            f"{row.row}, seed {row.training.seed}": {one.suite.name: one.id for one in row.evaluations}
            for row in plan.rows
        },
        "analyses": {f"{one.row}, seed {one.seed}": one.id for one in plan.analyses},
    }


def test_golden_identities(tmp_path: Path) -> None:
    found = {name: identities(make_plan(load_grid_file(name), tmp_path)) for name in GRIDS}
    if os.environ.get("LMK_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for name in GRIDS:
        for kind in ("pretrainings", "trainings", "evaluations", "analyses"):
            assert found[name][kind] == golden[name].get(kind, {}), (
                f"identities of {name} changed, so cells would be made anew; where that is meant, see this file's top"
            )
    assert found.keys() == golden.keys()


TRAINING = {
    "model": {"path": "org/model", "revision": "main"},
    "pooling": {"kind": "landmark", "granularity": 32},
    "data": {"train": ["data:msmarco-passage"]},
    "optim": {"steps": 100, "batch_size": 8, "learning_rate": 1e-5, "warmup_steps": 10},
}
PRETRAINING = {**TRAINING, "method": "retromae"}
SUITE = {"name": "suite", "tasks": [{"name": "task", "mteb": "NFCorpus", "split": "test"}]}

# Another valid value of every field. A field that is new has to be added here.
OTHER: dict[str, Any] = {
    "method": "another",
    "model.path": "org/other",
    "model.revision": "v2",
    "pooling": {"kind": "cls"},
    "init": "pretraining:0123456789ab",
    "data.train": ["data:bge-m3"],
    "data.validation": "data:bge-m3/validation.jsonl",
    "data.negatives": 3,
    "data.query_max_length": 64,
    "data.passage_max_length": 256,
    "data.max_length": 256,
    "data.last_batch": "spread",
    "data.prompt": "{prompt} {text}",
    "data.stream_buffer": 1000,
    "data.max_faulty": 0.01,
    "data.cache": "/cache",
    "optim.steps": 101,
    "optim.batch_size": 9,
    "optim.learning_rate": 2e-5,
    "optim.weight_decay": 0.01,
    "optim.warmup_steps": 11,
    "optim.warmup": "logarithmic",
    "optim.betas": (0.9, 0.98),
    "optim.eps": 1e-6,
    "optim.gradient_clip": None,
    "loss.temperature": 0.05,
    "loss.distillation": "off",
    "loss.teacher_temperature": 2.0,
    "loss.bidirectional": True,
    "loss.mask_duplicates": True,
    "loss.matryoshka": (64, 768),
    "masking.encoder": 0.2,
    "masking.decoder": 0.4,
    "precision": "bf16",
    "seed": 1,
    "recipe_version": 2,
    "runtime.accelerator": "cpu",
    "runtime.devices": 8,
    "runtime.nodes": 2,
    "runtime.num_workers": 3,
    "runtime.packed": False,
    "runtime.activation_checkpointing": True,
    "runtime.threads": 2,
    "runtime.log_every": 7,
    "runtime.validate_every": 50,
    "runtime.checkpoint_every": 70,
    "runtime.chunk_tokens": 4096,
    "runtime.logits_at_once": 1000,
    "runtime.divergence": None,
}
OTHER_OF_SUITE: dict[str, Any] = {
    "name": "other",
    "title": "Another title",
    "source": "another section",
    "assumed": "something else",
    "tasks.name": "other",
    "tasks.mteb": "SciFact",
    "tasks.split": "dev",
    "tasks.subsets": ("en",),
    "tasks.metric": "recall_at_10",
    "tasks.group_by": "split",
    "tasks.lengths": (256,),
    "tasks.characters_a_token": 2.0,
}
TRANSIENT = {"data.validation", "data.max_faulty", "data.cache", "title", "source", "assumed"}


def leaves(model: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted names of all fields that hold values."""
    found = []
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            found += leaves(section, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found


def changed(value: BaseModel, path: str, to: Any) -> BaseModel:
    name, _, rest = path.partition(".")
    if rest:
        to = changed(getattr(value, name), rest, to)
    elif name == "pooling":
        to = PoolingConfig.from_dict(to)
    return value.model_copy(update={name: to})


def named(value: Any) -> str:
    return identity(value, lambda reference: reference.removeprefix("data:"))


def is_transient(path: str) -> bool:
    return path in TRANSIENT or path.startswith("runtime.")


@pytest.mark.parametrize("path", leaves(TrainConfig))
def test_every_field_of_a_training(path: str) -> None:
    config = TrainConfig.model_validate(TRAINING)
    other = changed(config, path, OTHER[path])
    assert other != config
    assert (named(other) == named(config)) is is_transient(path), path


@pytest.mark.parametrize("path", leaves(PretrainConfig))
def test_every_field_of_a_pretraining(path: str) -> None:
    value = {key: held for key, held in PRETRAINING.items() if key in PretrainConfig.model_fields}
    config = PretrainConfig.model_validate(value)
    assert (named(changed(config, path, OTHER[path])) == named(config)) is is_transient(path), path


@pytest.mark.parametrize("path", [name for name in leaves(Suite) if name != "tasks"])
def test_every_field_of_a_suite(path: str) -> None:
    suite = Suite.model_validate(SUITE)
    other = changed(suite, path, OTHER_OF_SUITE[path])
    assert (named(other) == named(suite)) is is_transient(path), path


@pytest.mark.parametrize("path", [name for name in leaves(Task) if name not in LOCAL_KINDS])
def test_every_field_of_a_task(path: str) -> None:
    suite = Suite.model_validate(SUITE)
    task = suite.tasks[0].model_copy(update={path: OTHER_OF_SUITE[f"tasks.{path}"]})
    assert named(suite.model_copy(update={"tasks": (task,)})) != named(suite)


@pytest.mark.parametrize("kind", LOCAL_KINDS)
def test_a_tasks_own_files_count_by_their_content(kind: str) -> None:
    def with_files(place: str) -> Suite:
        return Suite.model_validate({"name": "s", "tasks": [{"name": "t", kind: place}]})

    contents = {"/a": "same", "/b": "same", "/c": "other"}
    a, b, c = (identity(with_files(place), contents.get) for place in contents)
    assert a == b != c


def test_how_vectors_and_weights_are_kept_counts_where_it_is_said(tmp_path: Path) -> None:
    def ids(*assignments: str) -> list[str | None]:
        plan = make_plan(load_grid_file("table1", assignments), tmp_path)
        return [evaluation.id for _, evaluation in plan.evaluations]

    usual = ids()
    assert ids("evaluate.storage=float32") == usual
    assert not set(ids("evaluate.storage=float16")) & set(usual)
    assert not set(ids("evaluate.weights=bfloat16")) & set(usual)


@pytest.mark.parametrize(
    "change",
    [
        {"granularity": 64},
        {"granularity": [32, 64]},
        {"granularity": "sentence"},
        {"overflow": "budget"},
        {"kind": "cls", "granularity": None},
        {"kind": "mean", "granularity": None},
        {"kind": "mean_at_k", "granularity": None, "k": 64},
        {"kind": "mean_at_k", "granularity": None, "k": 32},
        {"kind": "latent_attention", "granularity": None},
        {"kind": "latent_attention", "granularity": None, "num_latents": 32},
        {"kind": "latent_attention", "granularity": None, "latent_heads": 12},
    ],
    ids=str,
)
def test_every_key_of_a_pooling(change: dict[str, Any]) -> None:
    base = TrainConfig.model_validate(TRAINING)
    other = TrainConfig.model_validate({**TRAINING, "pooling": {"kind": "landmark", "granularity": 32, **change}})
    assert named(other) != named(base)


def test_what_counts_in_an_evaluation(tmp_path: Path) -> None:
    grid = {
        "grid": "g",
        "train": [{"row": "cls", **TRAINING, "pooling": {"kind": "cls"}}],
        "evaluate": {
            "suites": ["mldr-en"],
            "max_length": 512,
            "views": [{"of": "cls", "row": "multi", "pooling": {"kind": "multi_cls", "every": 128}}],
        },
    }

    def made(*assignments: str) -> str | None:
        (tmp_path / "g.yaml").write_text(json.dumps(grid))
        return make_plan(load_grid_file(str(tmp_path / "g.yaml"), assignments), tmp_path).evaluations[0][1].id

    before = made()
    assert made("title=Other", "runtime.threads=3", "resources.evaluate.gpus=1") == before
    every = "evaluate.views=[{of: cls, row: multi, pooling: {kind: multi_cls, every: 64}}]"
    changes = ("evaluate.max_length=1024", "evaluate.suites=[mldr-13]", every, "seeds=[1]", "optim.steps=70")
    found = [made(change) for change in changes]
    assert len({before, *found}) == 6


def test_published_data_counts_by_name_and_version_and_part() -> None:
    def canon(reference: str) -> Any:
        config = TrainConfig.model_validate({**TRAINING, "data": {"train": [reference]}})
        return canonical(config, lambda one: one.removeprefix("data:") + "@1")["data"]["train"]

    assert canon("data:msmarco-passage") == [{"data": "msmarco-passage@1"}]
    assert canon("data:bge-m3/en.jsonl") == [{"data": "bge-m3/en.jsonl@1"}]


SETS = [
    {"path": "data:msmarco-passage", "share": 2},
    {"path": ["data:bge-m3/en.jsonl", "data:bge-m3/zh.jsonl"], "share": 1},
]


def mixed(*entries: Any) -> str:
    return named(TrainConfig.model_validate({**TRAINING, "data": {"train": list(entries)}}))


@pytest.mark.parametrize(
    "change",
    [
        {"path": "data:msmarco-document"},
        {"share": 3},
        {"batch_size": 4},
        {"batch_sizes": {"0-500": 8, "500-inf": 4}},
        {"negatives": 1},
    ],
    ids=str,
)
def test_every_key_of_a_data_set(change: dict[str, Any]) -> None:
    assert mixed({**SETS[0], **change}, SETS[1]) != mixed(*SETS)
    assert mixed({**SETS[0], "name": "mine"}, SETS[1]) == mixed(*SETS)


def test_one_training_has_one_identity_however_it_is_written() -> None:
    plain = mixed("data:msmarco-passage")
    assert plain == named(TrainConfig.model_validate(TRAINING))
    assert mixed({"path": "data:msmarco-passage"}) == plain
    assert mixed({"path": "data:msmarco-passage", "weight": 2}) == plain, "alone, a weight says nothing"
    assert mixed({"path": ["data:msmarco-passage"], "name": "mine"}) == plain
    two = mixed("data:msmarco-passage", "data:bge-m3")
    assert two == mixed({"path": "data:msmarco-passage"}, {"path": "data:bge-m3"})
    assert two != mixed({"path": ["data:msmarco-passage", "data:bge-m3"]}), "two data sets, or one"
    assert two != mixed({"path": "data:msmarco-passage", "weight": 2}, "data:bge-m3")


def test_several_files_are_no_longer_mixed_row_by_row_and_not_the_training_they_were() -> None:
    config = TrainConfig.model_validate({**TRAINING, "data": {"train": ["data:msmarco-passage", "data:bge-m3"]}})
    found = canonical(config, lambda one: one.removeprefix("data:") + "@1")["data"]["train"]
    assert found == [{"path": {"data": "msmarco-passage@1"}}, {"path": {"data": "bge-m3@1"}}]


class Old(BaseModel):
    steps: int = 3
    note: str = Field(default="", json_schema_extra={"identity": "transient"})


class New(Old):
    method: str | None = Field(default=None, json_schema_extra={"identity_absent": None})
    scale: float = Field(default=1.0, json_schema_extra={"identity_absent": 1.0})


def test_an_old_identity_survives_a_new_field_with_its_absent_value() -> None:
    assert named(New()) == named(Old())
    assert named(New(method="retromae")) != named(Old())
    assert named(New(scale=2.0)) != named(Old())
    assert "init" not in canonical(TrainConfig.model_validate(TRAINING), str), "trainings of before keep theirs"
    assert "metric" not in canonical(Task(name="a", mteb="NFCorpus"), str)
