"""`lmk train` of a pre-training, and of what starts from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from lmk_experiments.configs import ConfigError
from lmk_experiments.grids import identity, load_grid_file, load_training_file, make_plan
from lmk_experiments.records import pretraining_cell, training_cell

OPTIM = {"steps": 2, "batch_size": 2, "learning_rate": 1.0e-3, "warmup_steps": 1}
RUNTIME = {"accelerator": "cpu", "threads": 1, "checkpoint_every": None}
POOLING = {"kind": "landmark", "granularity": [2, 4]}


@pytest.fixture
def folder(tmp_path: Path, model_folder: Path) -> Path:
    """A pre-training, a fine-tune that names it, and one that does not."""
    from transformers import AutoTokenizer

    from lmk_core import Embedder

    model = Embedder.from_pretrained(model_folder, device="cpu")
    model.module.encoder.save_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.mask_token = "[PAD]"
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "texts.jsonl").write_text('{"text": "one text"}\n{"text": "and another"}\n')
    (tmp_path / "rows.jsonl").write_text('{"query": "a", "pos": ["a b"], "neg": ["c"]}\n' * 2)
    shared = {"model": {"path": "./model"}, "pooling": POOLING, "optim": OPTIM, "runtime": RUNTIME}
    plain = {**shared, "data": {"train": ["rows.jsonl"], "negatives": 1}}
    first = {"method": "retromae", "data": {"train": ["texts.jsonl"], "max_length": 16}, "optim": OPTIM}
    for name, value in {
        "model_file": {"model": shared["model"]},
        "preset": {**first, "runtime": RUNTIME},
        "first": {"base": ["./preset.yaml", "./model_file.yaml"], "pooling": POOLING},
        "plain": plain,
        "both": {**plain, "init": "./preset.yaml"},
    }.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(value))
    return tmp_path


def test_a_fine_tune_goes_on_from_a_pretrainings_folder(folder: Path, lmk: Callable[..., Result]) -> None:
    root = folder / "runs"

    def train(name: str, *more: Any) -> str:
        done = lmk("train", folder / name, "--root", root, *more)
        assert done.exit_code == 0, done.output
        return done.output

    said = train("first.yaml")
    (place,) = (root / "pretrainings").iterdir()
    assert f"pre-training {place.name} in {place}" in said
    assert f"--set init={place}" in said
    assert '"train/decoder_loss"' in said
    assert pretraining_cell(root, place.name).done() is not None

    said = train("plain.yaml", "--set", f"init={place}")
    weights = len(json.loads((place / "WEIGHTS.json").read_text())["weights"])
    assert weights > 5
    assert f"starts from pre-training {place.name}: its {weights} weights are loaded, of {weights} here" in said
    (tuned,) = (root / "trainings").iterdir()
    assert training_cell(root, tuned.name).config["init"] == f"pretraining:{place.name}"

    # The same pre-training by its preset's name, the same fine-tune: nothing is left to do, even where it is gone.
    place.rename(folder / "gone")
    assert str(place) not in train("both.yaml")
    assert [path.name for path in (root / "trainings").iterdir()] == [tuned.name]


def test_it_is_the_cell_of_a_grids_row(folder: Path) -> None:
    grid = {
        "grid": "g",
        "base": ["./plain.yaml"],
        "train": [{"row": "one", "init": "./preset.yaml"}],
        "evaluate": {"suites": ["mldr-en"], "max_length": 64},
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid))
    (row,) = make_plan(load_grid_file(str(folder / "grid.yaml")), folder / "runs").trainings
    loaded = load_training_file(str(folder / "both.yaml"))
    alone = load_training_file(str(folder / "first.yaml"))
    assert row.pretraining is not None
    assert loaded.pretraining == row.pretraining.config
    assert identity(alone.config, lambda _: "x") == identity(loaded.pretraining, lambda _: "x")


def test_what_init_may_be(folder: Path, lmk: Callable[..., Result]) -> None:
    with pytest.raises(ConfigError, match="no pre-training is called 'retromea'; did you mean 'retromae'"):
        load_training_file(str(folder / "plain.yaml"), ("init=retromea",))
    for init in (str(folder), "pretraining:0123456789ab"):
        with pytest.raises(ValueError, match=r"is no finished pre-training under .*; valid: none yet \(`lmk train"):
            lmk("train", folder / "plain.yaml", "--root", folder / "runs", "--set", f"init={init}")


def test_its_help_teaches_pretraining(lmk: Callable[..., Result]) -> None:
    words = " ".join(lmk("train", "--help").output.split())
    assert "'data.train=[./texts]'" in words
    assert "--set init=runs/pretrainings/ID" in words
