"""What somebody new types first, and is answered with a sentence that helps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from lmk_experiments.cli.analyze_models import check_devices
from lmk_experiments.cli.main import as_typed, main
from lmk_experiments.cli.one_model import find_suite
from lmk_experiments.costs.measured import measured_size
from lmk_experiments.grids.local import refuse_missing_path
from lmk_experiments.records import ElsewhereRecord, GridRecord
from lmk_experiments.upkeep import compare, find_side


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The command's exit code, as a shell would have it."""
    monkeypatch.setattr(sys, "argv", ["lmk", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_a_file_that_is_not_there_is_no_file_without_faults(monkeypatch, capsys, tmp_path):
    assert typed(monkeypatch, "data", "check", str(tmp_path / "nofile.jsonl")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"no such file or folder: {tmp_path / 'nofile.jsonl'}" in err


@pytest.mark.parametrize("name", ["./nodir", "../nodir", "/no/dir", "~/nodir", "a/b/nodir", "nodir/"])
def test_what_looks_like_a_path_is_not_looked_for_on_the_hub(name):
    with pytest.raises(ValueError, match=r"--tokenizer .*: there is no such folder"):
        refuse_missing_path("--tokenizer", name)


def test_names_of_the_hub_and_folders_are_let_through(tmp_path):
    for name in ("bert-base-uncased", "answerdotai/ModernBERT-base", str(tmp_path)):
        assert refuse_missing_path("--tokenizer", name) is None, name


@pytest.mark.parametrize("device", ["cuda:77", "tpu9", "gpu"])
def test_a_device_that_is_not_there_is_told_with_those_that_are(device):
    with pytest.raises(ValueError, match=rf"--device {device}: .*; here are: cpu"):
        check_devices([device])
    check_devices(["cpu"])


@pytest.mark.parametrize(
    ("message", "words", "shown"),
    [
        ("granularity: 0; valid", ["encode", "--granularity", "0"], "--granularity: 0; valid"),
        ("max_length: 1 is short", ["encode", "--max-length=1"], "--max-length: 1 is short"),
        ("granularity: 0; valid", ["run", "grid.yaml"], "granularity: 0; valid"),
        ("grid.yaml:3: granularity: 0", ["encode", "--granularity", "0"], "grid.yaml:3: granularity: 0"),
    ],
)
def test_an_option_is_named_as_it_was_typed(message, words, shown):
    assert as_typed(message, words) == shown


def test_a_mistake_in_an_option_of_encode_names_the_option(monkeypatch, capsys, tmp_path):
    (tmp_path / "texts.txt").write_text("a text\n")
    words = ["encode", "model", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "v.npy"), "--granularity", "0"]
    assert typed(monkeypatch, *words) == 2
    assert capsys.readouterr().err.startswith("error: --granularity: 0")


def test_a_suite_of_ones_own_may_name_built_data(tmp_path):
    built = tmp_path / "runs" / "built" / "quickstart-tiny"
    built.mkdir(parents=True)
    (built / "BUILT.json").write_text(json.dumps({"fingerprints": {}}))
    (tmp_path / "suite.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "own",
                "tasks": [
                    {"name": "short", "folder": "built:quickstart-tiny/eval/short"},
                    {"name": "near", "folder": "data/near"},
                ],
            }
        )
    )
    suite = find_suite(str(tmp_path / "suite.yaml"), None, None, tmp_path / "runs")
    assert [task.local for task in suite.tasks] == [str(built / "eval" / "short"), str(tmp_path / "data" / "near")]
    (tmp_path / "wrong.yaml").write_text(
        yaml.safe_dump({"name": "x", "tasks": [{"name": "a", "folder": "built:no/a"}]})
    )
    with pytest.raises(ValueError, match=r"built:no/a: unknown name 'no'; valid: built:quickstart"):
        find_suite(str(tmp_path / "wrong.yaml"), None, None, tmp_path / "runs")


@pytest.mark.parametrize(("split", "group_by", "option"), [("dev", None, "--split dev"), (None, "k", "--group-by k")])
def test_what_only_a_folder_takes_is_refused_elsewhere(tmp_path, split, group_by, option):
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({"name": "own", "tasks": [{"name": "a", "folder": "data"}]}))
    for name in (str(tmp_path / "suite.yaml"), "mldr-en"):
        with pytest.raises(ValueError, match=f"{option}: is for a folder .* --suite {name} is none"):
            find_suite(name, split, group_by, tmp_path)
    (tmp_path / "folder").mkdir()
    [task] = find_suite(str(tmp_path / "folder"), split, group_by, tmp_path).tasks
    assert (task.split, task.group_by) == (split or "test", group_by)


def test_the_size_of_a_local_model_is_read_off_its_weights(model_folder, tmp_path):
    from safetensors.torch import load_file

    weights = load_file(model_folder / "model.safetensors")
    size = measured_size(str(model_folder), tmp_path)
    assert size is not None
    table = next(value for name, value in weights.items() if "tok_embeddings" in name)
    assert size.embedding_parameters == table.numel()
    assert size.parameters == sum(value.numel() for value in weights.values()) - table.numel()
    assert size.dim == table.shape[1]
    assert measured_size("owner/on-the-hub", tmp_path) is None
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"short")
    assert measured_size(str(tmp_path), tmp_path) is None


def test_rows_from_elsewhere_can_be_compared(tmp_path: Path):
    rows = [
        ElsewhereRecord("bge", "results/bge", {"s": {"t": {"main_score": 0.5}}}, {"s": []}),
        ElsewhereRecord("e5", "results/e5", {"s": {}}, {"s": ["t"]}),
    ]
    GridRecord("g", "G", [], [], elsewhere=rows).save(tmp_path)
    found = compare(find_side(tmp_path, "bge"), find_side(tmp_path, "g/e5"))
    assert [(one.task, one.a, one.b) for one in found.scores] == [("s/t", 0.5, "no results of t")]
    assert found.a.name == "bge of g, from results/bge"
    with pytest.raises(ValueError, match="bge"):
        find_side(tmp_path, "bgee")


def test_lengths_prints_what_each_maximum_length_cuts():
    from lmk_experiments.cli.analyze_show import summary_text

    cut = [
        {"data": "docs", "max_length": 512, "texts_cut": 0.5, "tokens_lost": 0.125},
        {"data": "docs", "max_length": 8192, "texts_cut": 0.0, "tokens_lost": 0.0},
    ]
    told = SimpleNamespace(summary=[{"data": "docs", "texts": 2}], tables={"cut": cut})
    lines = summary_text(told).splitlines()
    assert lines[-4].split() == ["cut", "at", "a", "maximum", "length", "of", "512", "8,192"]
    assert lines[-2].split() == ["docs:", "texts", "cut", "50.0%", "0.0%"]
    assert lines[-1].split() == ["docs:", "tokens", "lost", "12.5%", "0.0%"]
