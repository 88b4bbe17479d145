"""What the paths of a grid lead to is seen when it is planned, and told with file, line and key."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmk_experiments.configs import ConfigError
from lmk_experiments.grids import load_grid_file, make_plan

GRID: dict[str, Any] = {
    "grid": "g",
    "train": [
        {
            "row": "cls",
            "model": {"path": "./model"},
            "pooling": {"kind": "cls"},
            "data": {"train": ["train.jsonl"]},
            "optim": {"steps": 4, "batch_size": 8, "learning_rate": 0.001},
        }
    ],
    "evaluate": {"suites": [{"name": "short", "tasks": [{"name": "t", "folder": "beir"}]}], "max_length": 128},
}


def write_grid(folder: Path) -> None:
    (folder / "g.yaml").write_text(yaml.safe_dump(GRID, sort_keys=False))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("model/config.json", "model/model.safetensors", "beir/corpus.jsonl", "beir/queries.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    (tmp_path / "beir/qrels").mkdir()
    (tmp_path / "beir/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n")
    (tmp_path / "train.jsonl").write_text("{}\n")
    write_grid(tmp_path)
    return tmp_path


def told(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        make_plan(load_grid_file(str(folder / "g.yaml")), folder / "runs")
    return str(caught.value)


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "g.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def file_for(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def folder_for(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pickled(path: Path) -> None:
    path.rename(path.with_name("pytorch_model.bin"))


SUITE, TRAIN, MODEL = "evaluate.suites[0].tasks[0].folder", "data.train[0]", "model.path"


@pytest.mark.parametrize(
    ("change", "path", "key", "says"),
    [
        (Path.unlink, "beir/queries.jsonl", SUITE, ("no queries.jsonl", "it holds: corpus.jsonl, qrels")),
        (Path.unlink, "beir/corpus.jsonl", SUITE, ("no corpus.jsonl", "it holds: qrels, queries.jsonl")),
        (shutil.rmtree, "beir/qrels", SUITE, ("no folder qrels", "it holds: corpus.jsonl, queries.jsonl")),
        (
            lambda path: path.rename(path.with_name("dev.tsv")),
            "beir/qrels/test.tsv",
            SUITE,
            ("no qrels/test.tsv", "splits that are there: dev"),
        ),
        (file_for, "beir", SUITE, ("is a file", "corpus.jsonl, queries.jsonl and qrels/test.tsv")),
        (folder_for, "train.jsonl", TRAIN, ("it holds no file of rows", "valid endings: .jsonl")),
        (lambda path: path.write_text("\n \n"), "train.jsonl", TRAIN, ("is empty", "one JSON object a line")),
        (Path.unlink, "model/config.json", MODEL, ("no config.json", "it holds: model.safetensors")),
        (Path.unlink, "model/model.safetensors", MODEL, ("no *.safetensors", "it holds: config.json")),
        (pickled, "model/model.safetensors", MODEL, ("pytorch_model.bin is refused", "pickled weights")),
        (file_for, "model", MODEL, ("is a file", "config.json and its weights as *.safetensors")),
    ],
)
def test_what_cannot_be_used(
    change: Callable[[Path], object], path: str, key: str, says: tuple[str, ...], folder: Path
) -> None:
    make_plan(load_grid_file(str(folder / "g.yaml")), folder / "runs")  # without the change all is well
    change(folder / path)
    said = told(folder)
    assert f"{key}: {folder / path.split('/')[0]}" in said
    assert "g.yaml:" in said
    for part in says:
        assert part in said, said


def test_another_split(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = {"name": "short", "tasks": [{"name": "t", "folder": "beir", "split": "dev"}]}
    monkeypatch.setitem(GRID, "evaluate", {**GRID["evaluate"], "suites": [suite]})
    write_grid(folder)
    assert "has no qrels/dev.tsv; splits that are there: test" in told(folder)


def test_an_ending_that_no_training_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "train.jsonl").rename(folder / "train.csv")
    monkeypatch.setitem(GRID, "train", [{**GRID["train"][0], "data": {"train": ["train.csv"]}}])
    write_grid(folder)
    assert "ends in '.csv'; valid endings: .jsonl, .json" in told(folder)


def test_data_sets_of_a_mixture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mix(*entries: Any) -> None:
        monkeypatch.setitem(GRID, "train", [{**GRID["train"][0], "data": {"train": list(entries)}}])
        write_grid(folder)

    (folder / "more").mkdir()
    (folder / "more/b.parquet").write_text("x")
    mix("train.jsonl", {"path": "more", "weight": 2}, {"path": ["train.jsonl", "more"]})
    train = load_grid_file(str(folder / "g.yaml")).rows[0].config.data
    assert train.paths == tuple(str(folder / name) for name in ("train.jsonl", "more", "train.jsonl", "more"))
    assert [entry.weight for entry in train.sets] == [None, 2, None]
    mix("train.jsonl", {"path": ["train.jsonl", "nope.jsonl"]})
    assert f"g.yaml:{line_of(folder, 'nope.jsonl')}: data.train[1].path[1]: no such file" in told(folder)
    mix("train.jsonl", {"path": "train.jsonl", "weigth": 2})
    assert "data.train[1].weigth: unknown key" in told(folder)
    assert "did you mean 'weight'?" in told(folder)
    mix({"path": "train.jsonl", "weight": 2, "share": 1})
    assert "data.train[0]: give 'weight' or 'share', not both" in told(folder)
    mix({"path": "train.jsonl", "share": 1}, {"path": "more"})
    assert "either every data set has a share, or none: " in told(folder)


def test_built_data_that_its_builder_does_not_make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRID, "train", [{**GRID["train"][0], "data": {"train": ["built:quickstart-tiny/nope.jsonl"]}}])
    write_grid(folder)
    said = told(folder)
    assert f"g.yaml:{line_of(folder, 'nope.jsonl')}: data.train[0]: built:quickstart-tiny does not make" in said
    assert "built:quickstart-tiny/train.jsonl, built:quickstart-tiny/validation.jsonl" in said
