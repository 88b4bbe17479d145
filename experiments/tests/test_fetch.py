"""``lmk fetch`` against a hub on this machine: what comes into the cache serves where there is no network."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lmk_experiments.fetch import ModelMissing, grid_needs, require_model
from lmk_experiments.grids import load_grid_file, make_plan

SPEC = importlib.util.spec_from_file_location("fake_hub", Path(__file__).with_name("fake_hub.py"))
assert SPEC is not None
assert SPEC.loader is not None
hub = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hub)

GRID = {
    "grid": "away",
    "train": [{"row": "cls", "pooling": {"kind": "cls"}}],
    "evaluate": {
        "suites": [
            {"name": "s", "tasks": [{"name": "nf", "mteb": "NFCorpus"}, {"name": "sci", "mteb": "SciFact"}]},
        ],
        "max_length": 64,
    },
    "base": ["preset.yaml"],
}
PRESET = {
    "model": {"path": "org/tiny"},
    "data": {"train": ["data:msmarco-passage"], "query_max_length": 32, "passage_max_length": 32},
    "optim": {"steps": 2, "batch_size": 2, "learning_rate": 0.001},
}


def write_grid(folder: Path, **changes: object) -> Path:
    (folder / "preset.yaml").write_text(yaml.safe_dump({**PRESET, **changes}))
    (folder / "away.yaml").write_text(yaml.safe_dump(GRID))
    return folder / "away.yaml"


def write_data_set(folder: Path) -> None:
    folder.mkdir(parents=True)
    documents = [{"_id": f"d{number}", "title": "", "text": f"text {number}"} for number in range(5)]
    queries = [{"_id": f"q{number}", "text": f"query {number}"} for number in range(2)]
    judged = [{"query-id": f"q{number}", "corpus-id": f"d{number}", "score": 1} for number in range(2)]
    for name, rows in (("corpus", documents), ("queries", queries), ("qrels", judged)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (folder / "README.md").write_text(
        "---\nconfigs:\n"
        "- config_name: corpus\n  data_files: [{split: corpus, path: corpus.jsonl}]\n"
        "- config_name: queries\n  data_files: [{split: queries, path: queries.jsonl}]\n"
        "- config_name: default\n  data_files: [{split: test, path: qrels.jsonl}]\n---\n"
    )


def write_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "modernbert"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"a program")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.safetensors").write_bytes(b"another")
    (folder / "onnx" / "config.json").write_text("{}")
    modules = [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Normalize"}, {"path": "../onnx"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    (folder / "1_Pooling" / "code.py").write_text("print('no')")


def fetch(grid: Path, address: str, *more: str) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
    environment = {**own, "HF_ENDPOINT": address, "HF_HOME": str(grid.parent / "cache"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "lmk_experiments.cli.main", "fetch", str(grid), *more]
    return subprocess.run(command, cwd=grid.parent, env=environment, capture_output=True, text=True, check=False)


def test_what_a_grid_needs(tmp_path: Path) -> None:
    needs = grid_needs([make_plan(load_grid_file(str(write_grid(tmp_path))), tmp_path)])
    assert (needs.models, needs.data) == ([("org/tiny", None)], ["msmarco-passage"])
    assert [task.mteb for task in needs.tasks] == ["NFCorpus", "SciFact"]
    paper = [make_plan(load_grid_file(name), tmp_path) for name in ("table1", "table2")]
    found = grid_needs(paper)
    assert ("answerdotai/ModernBERT-base", None) in found.models
    assert len(found.tasks) == len({(task.mteb, task.split, task.subsets) for task in found.tasks})


def test_fetched_once_then_used_without_a_network(tmp_path: Path) -> None:
    write_model(tmp_path / "hub" / "models" / "org" / "tiny")
    write_data_set(tmp_path / "hub" / "datasets" / "mteb" / "nfcorpus")
    gated = tmp_path / "hub" / "datasets" / "mteb" / "scifact"
    write_data_set(gated)
    (gated / ".gated").touch()
    grid = write_grid(tmp_path)
    with hub.fake_hub(tmp_path / "hub") as (address, asked):
        look = fetch(grid, address, "--look")
        assert look.returncode == 1, look.stdout + look.stderr
        assert "2 of 4 are to be had" in look.stdout
        assert not [path for path in asked if "/resolve/" in path], "nothing was downloaded"
        done = fetch(grid, address)
    assert done.returncode == 1, "something is missing"
    assert "2 of 4 are here" in done.stdout, done.stdout + done.stderr
    assert "SciFact (mteb/scifact): gated: log in with `hf auth login`" in done.stderr
    assert "data:msmarco-passage is not here" in done.stderr
    cached = tmp_path / "cache" / "hub" / "models--org--tiny" / "snapshots" / hub.COMMIT
    files = sorted(path.relative_to(cached).as_posix() for path in cached.rglob("*") if path.is_file())
    expected = ["1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "tokenizer.json"]
    assert files == expected
    # Elsewhere, with the same cache and no network.
    code = (
        "from lmk_eval.suites import Task; from lmk_eval.tasks import load_task, open_task\n"
        "(task,) = open_task(Task(name='nf', mteb='NFCorpus')); load_task(task)\n"
        "data = task.dataset['default']['test']; print(len(data['corpus']), len(data['queries']))\n"
        "(task,) = open_task(Task(name='sci', mteb='SciFact'))\n"
        "try:\n    load_task(task)\nexcept ValueError as error:\n    print(error)\n"
    )
    offline = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    used = subprocess.run([sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=False)
    assert used.returncode == 0, used.stderr
    first, second = used.stdout.splitlines()
    assert first == "5 2"
    assert second.startswith("the data of SciFact (mteb/scifact on the hub) is not on this machine")
    assert "`lmk fetch GRID`" in second


def test_a_data_set_that_is_a_program_and_a_model_of_pickles(tmp_path: Path) -> None:
    write_model(tmp_path / "hub" / "models" / "org" / "tiny")
    (tmp_path / "hub" / "models" / "org" / "tiny" / "model.safetensors").unlink()
    write_data_set(tmp_path / "hub" / "datasets" / "mteb" / "nfcorpus")
    (tmp_path / "hub" / "datasets" / "mteb" / "nfcorpus" / "nfcorpus.py").write_text("print('no')")
    with hub.fake_hub(tmp_path / "hub") as (address, _):
        done = fetch(write_grid(tmp_path), address, "--look")
    assert "it is a program (nfcorpus.py), which `datasets` does not run any more" in done.stderr
    assert "<root>/data/mteb/NFCorpus" in done.stderr
    assert "org/tiny: it has no *.safetensors" in done.stderr
    assert "SciFact (mteb/scifact): no such dataset on the hub" in done.stderr


def test_no_network_is_one_line(tmp_path: Path) -> None:
    done = fetch(write_grid(tmp_path), "http://127.0.0.1:9")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: the hub can't be reached from here")


def test_a_model_that_is_missing_on_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelMissing, match=r"the model org/none is not on this machine .*`lmk fetch GRID`"):
        require_model("org/none", None)
    require_model("./here", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    require_model("org/none", None)  # with a network it may still come
