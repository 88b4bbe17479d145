"""Published data by name: planned without it, found at run time, refused when it is not whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmk_experiments.builders import fingerprint
from lmk_experiments.configs import ConfigError
from lmk_experiments.datasets import (
    DATA_VARIABLE,
    DataSetMissing,
    data_files,
    data_identity,
    data_path,
    load_data_set,
    references,
)
from lmk_experiments.grids import load_grid_file, make_plan
from lmk_experiments.grids.ready import NotReady, check_ready
from lmk_experiments.jobs.references import real_training

REFERENCE = "data:msmarco-passage"


@pytest.fixture(autouse=True)
def no_shared_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def put(folder: Path, *names: str, version: str = "1", name: str = "msmarco-passage") -> Path:
    for one in names:
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        (folder / one).write_text('{"query": "q", "pos": ["p"], "neg": ["n"]}\n')
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "DATA.json").write_text(json.dumps({"name": name, "version": version}))
    return folder


def test_its_identity_is_its_name_and_version_wherever_it_lies(tmp_path: Path) -> None:
    assert data_identity(REFERENCE) == fingerprint(REFERENCE, tmp_path) == "msmarco-passage@1"
    assert data_identity("data:bge-m3/en.jsonl") == "bge-m3@1/en.jsonl"
    put(tmp_path / "data/msmarco-passage", "a.jsonl")
    assert fingerprint(REFERENCE, tmp_path) == "msmarco-passage@1"


def test_below_the_root(tmp_path: Path) -> None:
    folder = put(tmp_path / "data/msmarco-passage", "b.jsonl", "a.jsonl", "more/c.jsonl", ".cache/d.jsonl")
    assert data_path(REFERENCE, tmp_path) == folder
    assert data_files(REFERENCE, tmp_path) == [folder / "a.jsonl", folder / "b.jsonl", folder / "more/c.jsonl"]
    assert data_files(f"{REFERENCE}/b.jsonl", tmp_path) == [folder / "b.jsonl"]


def test_a_shared_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "runs/data/msmarco-passage", "own.jsonl")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "shared"))
    assert data_files(REFERENCE, tmp_path / "runs")[0].name == "own.jsonl"
    put(tmp_path / "shared/msmarco-passage", "shared.jsonl")
    assert data_files(REFERENCE, tmp_path / "runs")[0].name == "shared.jsonl"


def test_a_training_gets_its_files(tmp_path: Path) -> None:
    folder = put(tmp_path / "data/msmarco-passage", "b.jsonl", "a.jsonl")
    config = {"model": {"path": "org/m"}, "data": {"train": [REFERENCE, "/own.jsonl"], "validation": None}}
    found = real_training(config, tmp_path)["data"]["train"]
    assert found == [str(folder), "/own.jsonl"], "a folder is one data set"
    mixed = [{"path": f"{REFERENCE}/a.jsonl", "share": 2}, {"path": [REFERENCE, "/own.jsonl"], "share": 1}]
    found = real_training({**config, "data": {"train": mixed}}, tmp_path)["data"]
    assert [one["path"] for one in found["train"]] == [str(folder / "a.jsonl"), [str(folder), "/own.jsonl"]]
    assert [one["share"] for one in found["train"]] == [2, 1]


def test_tokenized_texts_are_kept_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cache(**data: Any) -> str:
        return real_training({"model": {"path": "org/m"}, "data": {"train": ["/a"], **data}}, tmp_path)["data"]["cache"]

    monkeypatch.setenv("LMK_CACHE", "/shared")
    assert cache() == "/shared"
    monkeypatch.delenv("LMK_CACHE")
    assert cache() == str(tmp_path / "cache")
    assert cache(cache="/mine") == "/mine"


def test_what_is_said_when_it_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "shared"))
    with pytest.raises(DataSetMissing) as caught:
        data_path(REFERENCE, tmp_path / "runs")
    said = str(caught.value)
    assert f"no {tmp_path}/shared/msmarco-passage nor {tmp_path}/runs/data/msmarco-passage" in said
    for part in ("lmk data build msmarco-passage", "JSON lines", "cfli/bge-full-data"):
        assert part in said
    assert "DATA.json" not in said, "the command writes it"
    declared = load_data_set("msmarco-passage")
    by_hand = declared.model_copy(update={"build": "unpack the archive"})
    monkeypatch.setattr(references, "load_data_set", lambda _: by_hand)
    with pytest.raises(DataSetMissing) as caught:
        data_path(REFERENCE, tmp_path / "runs")
    written = f'Then write {{"name": "msmarco-passage", "version": "1"}} to {tmp_path}/shared/msmarco-passage/DATA.json'
    assert written in str(caught.value)


def test_a_folder_without_a_manifest_is_not_whole(tmp_path: Path) -> None:
    put(tmp_path / "data/msmarco-passage", "a.jsonl")
    (tmp_path / "data/msmarco-passage/DATA.json").unlink()
    with pytest.raises(DataSetMissing, match=r"is not complete: .* has no DATA\.json"):
        data_path(REFERENCE, tmp_path)


@pytest.mark.parametrize(("name", "version"), [("msmarco-passage", "2"), ("bge-m3", "1")])
def test_other_data_in_its_place(name: str, version: str, tmp_path: Path) -> None:
    put(tmp_path / "data/msmarco-passage", "a.jsonl", name=name, version=version)
    with pytest.raises(
        DataSetMissing, match=f"says '{name}', version '{version}', but this is to be 'msmarco-passage'"
    ):
        data_path(REFERENCE, tmp_path)


def test_a_part_that_is_not_there(tmp_path: Path) -> None:
    put(tmp_path / "data/msmarco-passage", "a.jsonl", "b.jsonl")
    with pytest.raises(DataSetMissing, match=r"holds no 'c\.jsonl'; it holds: a\.jsonl, b\.jsonl"):
        data_path(f"{REFERENCE}/c.jsonl", tmp_path)


def test_no_files(tmp_path: Path) -> None:
    put(tmp_path / "data/msmarco-passage")
    with pytest.raises(DataSetMissing, match="holds no files"):
        data_files(REFERENCE, tmp_path)


def test_a_name_that_is_not_declared() -> None:
    with pytest.raises(ConfigError, match=r"no such dataset; did you mean 'msmarco-passage'\?"):
        data_identity("data:msmarco-pasage")


def grid(folder: Path, **row: object) -> str:
    value = {
        "grid": "g",
        "base": ["msmarco_passage", "models/modernbert-base"],
        "train": [{"row": "cls"}, {"row": "pre", "pooling": {"kind": "mean"}, **row}],
        "evaluate": {"suites": ["mldr-en"], "max_length": 512},
    }
    (folder / "g.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
    return str(folder / "g.yaml")


def test_a_plan_says_all_that_a_run_lacks(tmp_path: Path) -> None:
    plan = make_plan(load_grid_file(grid(tmp_path, init="retromae")), tmp_path)
    with pytest.raises(NotReady) as caught:
        check_ready(plan, tmp_path, lambda kind, identity: False)
    said = str(caught.value)
    assert said.count("data:msmarco-passage is not here") == 1
    assert said.count("data:retromae-225k is not here") == 1
    assert "lmk data build retromae BOOKS WIKIPEDIA STACKEXCHANGE" in said
    with pytest.raises(NotReady, match="retromae-225k"):
        check_ready(plan, tmp_path, lambda kind, identity: kind == "evaluation")
    check_ready(plan, tmp_path, lambda kind, identity: kind in ("training", "evaluation"))


def test_what_is_done_needs_no_data(tmp_path: Path) -> None:
    plan = make_plan(load_grid_file(grid(tmp_path)), tmp_path)
    check_ready(plan, tmp_path, lambda kind, identity: kind == "training")
    put(tmp_path / "data/msmarco-passage", "a.jsonl")
    check_ready(plan, tmp_path, lambda kind, identity: False)
