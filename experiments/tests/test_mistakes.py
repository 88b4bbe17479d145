"""Mistakes in the YAML files of a user, one kind a case: each is told with the file, the key and the valid values."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmk_experiments.configs import ConfigError
from lmk_experiments.costs import load_throughput
from lmk_experiments.grids import Plan, load_grid_file, load_training_file, make_plan
from lmk_experiments.tables.load import load_table

FILES: dict[str, Any] = {
    "grid.yaml": {
        "grid": "g",
        "base": ["preset.yaml"],
        "train": [
            {"row": "{m}-cls", "base": ["{m}.yaml"], "pooling": {"kind": "cls"}, "for": {"m": ["one", "two"]}},
            {"row": "pre", "base": ["one.yaml"], "pooling": {"kind": "mean"}, "init": "retromae"},
        ],
        "evaluate": {
            "suites": ["mldr-en", "longembed"],
            "max_length": {"default": 512, "longembed": 1024},
            "views": [{"of": "*-cls", "when": {"m": "one"}}, {"of": "pre"}],
        },
        "table": "table.yaml",
        "assumed": {"seeds": "because one is enough here"},
    },
    "preset.yaml": {
        "data": {"train": ["data:msmarco-passage"], "negatives": 1},
        "optim": {"steps": 4, "batch_size": 8, "learning_rate": 0.001},
        "assumed": {"optim.steps": "because four are enough here"},
    },
    "one.yaml": {"model": {"path": "org/one"}, "size": {"parameters": 1000, "dim": 8}},
    "two.yaml": {"model": {"path": "org/two"}},
    "table.yaml": {"columns": [{"title": "MLDR", "suite": "mldr-en"}]},
    "profile.yaml": {"throughput": {"train": 1000.0}},
}


@dataclass(frozen=True)
class Mistake:
    """One wrong value: where it is put, and what the message has to say."""

    kind: str
    file: str
    at: tuple[str | int, ...]
    value: Any
    key: str
    says: tuple[str, ...]


MISTAKES = [
    Mistake("a key that no grid has", "grid.yaml", ("seedz",), [0], "seedz", ("did you mean 'seeds'?", "evaluate")),
    Mistake("a collection", "grid.yaml", ("collection",), "book", "collection", ("'paper' or 'appendix'", "'book'")),
    Mistake(
        "a key that no row has",
        "grid.yaml",
        ("train", 1, "basis"),
        [],
        "train[1].basis",
        ("valid: row, baseline", "pooling"),
    ),
    Mistake(
        "a pooling kind", "grid.yaml", ("train", 1, "pooling", "kind"), "max", "pooling.kind", ("'max'", "mean_at_k")
    ),
    Mistake(
        "a key of another pooling", "grid.yaml", ("train", 1, "pooling", "k"), 3, "pooling.k", ("'mean'", "its keys")
    ),
    Mistake("a preset", "grid.yaml", ("base",), ["msmarco"], "base[0]", ("no such preset", "msmarco_passage")),
    Mistake("a pre-training as base", "grid.yaml", ("base",), ["retromae"], "base[0]", ("init: retromae",)),
    Mistake("a base that is no name", "grid.yaml", ("base",), [["a"]], "base[0]", ("text is expected, found a list",)),
    Mistake("a pre-training", "grid.yaml", ("train", 1, "init"), "retro", "init", ("'retro'", "retromae", "null")),
    Mistake("a fine-tune as init", "grid.yaml", ("train", 1, "init"), "bge_m3", "init", ("is a fine-tune", "retromae")),
    Mistake(
        "a suite", "grid.yaml", ("evaluate", "suites", 0), "mldr", "evaluate.suites[0]", ("'mldr'", "mldr-13", "beir15")
    ),
    Mistake("a suite twice", "grid.yaml", ("evaluate", "suites", 0), "longembed", "evaluate.suites[1]", ("twice",)),
    Mistake(
        "a length of no suite",
        "grid.yaml",
        ("evaluate", "max_length", "longembedd"),
        5,
        "evaluate.max_length.longembedd",
        ("did you mean 'longembed'?", "default"),
    ),
    Mistake(
        "a length that is none",
        "grid.yaml",
        ("evaluate", "max_length"),
        "long",
        "evaluate.max_length",
        ("a whole number or a mapping of keys to values is expected, found 'long'",),
    ),
    Mistake(
        "a view's variable",
        "grid.yaml",
        ("evaluate", "views", 0, "when"),
        {"n": 1},
        "evaluate.views[0]",
        ("'n'", "valid: m"),
    ),
    Mistake(
        "a value of a view's variable",
        "grid.yaml",
        ("evaluate", "views", 0, "when"),
        {"m": "onne"},
        "evaluate.views[0]",
        ("'onne'", "one, two"),
    ),
    Mistake(
        "a view's row",
        "grid.yaml",
        ("evaluate", "views", 1, "of"),
        "per",
        "evaluate.views[1]",
        ("'per'", "two-cls, pre"),
    ),
    Mistake(
        "a key of a view",
        "grid.yaml",
        ("evaluate", "views", 1, "rows"),
        "x",
        "evaluate.views[1].rows",
        ("'row'", "when"),
    ),
    Mistake("an assumed key", "grid.yaml", ("assumed",), {"sede": "why"}, "assumed.sede", ("'sede'", "seeds")),
    Mistake(
        "an assumed suite",
        "grid.yaml",
        ("assumed",),
        {"evaluate.suites.beir": "why"},
        "beir",
        ("'beir'", "mldr-en, longembed"),
    ),
    Mistake(
        "an assumed row", "grid.yaml", ("assumed",), {"train.prae": "why"}, "train.prae", ("'prae'", "two-cls, pre")
    ),
    Mistake("a reason", "grid.yaml", ("assumed",), {"seeds": 3}, "assumed.seeds", ("text is expected, found 3",)),
    Mistake(
        "resources", "grid.yaml", ("resources",), {"train": {"gpu": 1}}, "resources.train.gpu", ("'gpus'", "nodes")
    ),
    Mistake("a table", "grid.yaml", ("table",), "tabel.yaml", "table", ("no such file",)),
    Mistake("a key of a section", "preset.yaml", ("optim", "step"), 3, "optim.step", ("'steps'", "warmup_steps")),
    Mistake(
        "a number",
        "preset.yaml",
        ("optim", "steps"),
        "many",
        "optim.steps",
        ("a whole number is expected, found 'many'",),
    ),
    Mistake("a number's range", "preset.yaml", ("optim", "batch_size"), 0, "optim.batch_size", ("greater than 0",)),
    Mistake("a choice", "preset.yaml", ("precision",), "fp16", "precision", ("'fp32' or 'bf16'", "'fp16'")),
    Mistake("a path in place of a list", "preset.yaml", ("data", "train"), "a.jsonl", "data.train", ("list of files",)),
    Mistake("a file", "preset.yaml", ("data", "train"), ["a.jsonl"], "data.train[0]", ("no such file", "a.jsonl")),
    Mistake(
        "a data set",
        "preset.yaml",
        ("data", "train"),
        ["data:msmarco"],
        "data.train[0]",
        ("no such dataset", "msmarco-document"),
    ),
    Mistake(
        "a way out of a data set", "preset.yaml", ("data", "train"), ["data:bge-m3/../x"], "data.train[0]", ("'..'",)
    ),
    Mistake(
        "data nobody builds",
        "preset.yaml",
        ("data", "train"),
        ["built:quick"],
        "data.train[0]",
        ("'quick'", "quickstart"),
    ),
    Mistake(
        "a preset's assumed key",
        "preset.yaml",
        ("assumed",),
        {"optim.lr": "why"},
        "assumed.optim.lr",
        ("'lr'", "learning_rate"),
    ),
    Mistake("a preset's reason", "preset.yaml", ("assumed",), {"seed": ""}, "assumed.seed", ("reason",)),
    Mistake("assumptions as a list", "preset.yaml", ("assumed",), ["seed"], "assumed", ("mapping of keys to reasons",)),
    Mistake("a key of a size", "one.yaml", ("size", "params"), 3, "size.params", ("'parameters'", "dim")),
    Mistake("a size", "one.yaml", ("size", "dim"), 0, "size.dim", ("greater than or equal to 1",)),
    Mistake("a key of a model", "one.yaml", ("model", "name"), "x", "model.name", ("valid: path, revision",)),
    Mistake(
        "a table's suite",
        "table.yaml",
        ("columns", 0, "suite"),
        "mldr",
        "columns[0].suite",
        ("'mldr'", "mldr-en, longembed"),
    ),
    Mistake(
        "a table's task", "table.yaml", ("columns", 0, "task"), "x", "columns[0].task", ("'x'", "MultiLongDocRetrieval")
    ),
    Mistake("a measured speed", "profile.yaml", ("throughput", "train"), -1, "throughput.train", ("greater than 0",)),
    Mistake(
        "a key of the speed", "profile.yaml", ("throughput", "tain"), 1, "throughput.tain", ("'train'", "evaluate")
    ),
]


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, value in files.items():
        (folder / name).write_text(yaml.safe_dump(value, sort_keys=False))


def plan_everything(folder: Path) -> Plan:
    loaded = load_grid_file(str(folder / "grid.yaml"))
    plan = make_plan(loaded, folder / "runs")
    load_table(loaded, plan)
    load_throughput(str(folder / "profile.yaml"))
    return plan


def test_without_a_mistake_all_is_well(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    plan = plan_everything(tmp_path)
    assert plan.trainings
    assert all(evaluation.id for _, evaluation in plan.evaluations)


def test_there_are_enough_kinds() -> None:
    assert len({mistake.kind for mistake in MISTAKES}) == len(MISTAKES) >= 15


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.kind)
def test_a_mistake_is_told_with_its_place_and_what_is_valid(mistake: Mistake, tmp_path: Path) -> None:
    files = copy.deepcopy(FILES)
    holder = files[mistake.file]
    for part in mistake.at[:-1]:
        holder = holder[part]
    holder[mistake.at[-1]] = mistake.value
    write(tmp_path, files)
    with pytest.raises(ConfigError) as caught:
        plan_everything(tmp_path)
    said = str(caught.value)
    assert mistake.file in said, said
    assert any(
        mistake.key in problem.key and problem.file.endswith(mistake.file) for problem in caught.value.problems
    ), said
    for part in mistake.says:
        assert part in said, said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: [1\n", "not valid YAML"),
        ("- a\n", "a mapping of keys to values is expected"),
        ("a: 1\na: 2\n", "a: stands here twice (first in line 1)"),
        ("", "a mapping of keys to values is expected"),
    ],
)
def test_a_file_that_is_no_mapping(text: str, says: str, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "preset.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"preset\.yaml:") as caught:
        plan_everything(tmp_path)
    assert says in str(caught.value)


def test_a_pretraining_alone_is_told_what_its_preset_leaves_open() -> None:
    with pytest.raises(ConfigError) as caught:
        load_training_file("retromae")
    assert "retromae.yaml: model: this key is required and is not there; it can be given by --set model.path=" in str(
        caught.value
    )
    assert "retromae.yaml: pooling: this key is required and is not there; it can be given by --set 'pooling=" in str(
        caught.value
    )


def test_a_training_without_a_model_names_its_file() -> None:
    with pytest.raises(ConfigError, match=r"msmarco_passage.yaml: model: this key is required"):
        load_training_file("msmarco_passage")
