"""Finished models in MLflow: once each, whole or not loadable, linked and not copied, replaced when they change."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from lmk_experiments.cli.main import app
from lmk_experiments.mirror import open_store, sync
from lmk_experiments.mirror.models import chosen_policy


@pytest.fixture
def trained(root, uri, model_folder):
    """A root with one finished training, its model and its grid; ``models`` asks the store what it has of it."""
    identity = root.train(1, {1: 2.0})
    model = root.path / "trainings" / identity / "model"
    shutil.copytree(model_folder, model)
    root.grid("small", [("cls", 0, identity, {})])

    def models() -> list:
        store = open_store(root.path, uri)
        found = store.client.search_logged_models([store.experiments["training"]])
        return [one for one in found if one.tags["lmk.root"] == str(root.path.resolve())]

    return SimpleNamespace(root=root, identity=identity, model=model, models=models)


def folder_of(logged) -> Path:
    return Path(logged.artifact_location.removeprefix("file://"))


def test_a_finished_model_is_logged_once_and_its_weights_are_a_hard_link(trained, uri):
    first = sync(trained.root.path, uri=uri)
    assert first.warnings == first.notes == []
    (logged,) = trained.models()
    assert (logged.name, str(logged.status), logged.tags["lmk.cell"]) == ("model", "READY", trained.identity)
    run = trained.root.runs(uri)[trained.identity]
    assert logged.source_run_id == run.info.run_id
    assert [one.model_id for one in run.outputs.model_outputs] == [logged.model_id]
    weights = folder_of(logged) / "artifacts" / "model" / "model.safetensors"
    assert weights.samefile(trained.model / "model.safetensors")
    copied = folder_of(logged) / "artifacts" / "model" / "config.json"
    assert copied.read_bytes() == (trained.model / "config.json").read_bytes()
    assert not copied.samefile(trained.model / "config.json")
    assert sync(trained.root.path, uri=uri).writes == 0
    # The marks are a memory and no more: without them the store is asked, and has it.
    (trained.root.path / "trainings" / trained.identity / "mlflow.json").unlink()
    sync(trained.root.path, uri=uri)
    assert [one.model_id for one in trained.models()] == [logged.model_id]
    run = trained.root.runs(uri)[trained.identity]
    assert [one.model_id for one in run.outputs.model_outputs] == [logged.model_id]


def test_nothing_of_it_is_pickled_or_names_this_machine(trained, uri):
    sync(trained.root.path, uri=uri)
    (logged,) = trained.models()
    files = [path for path in folder_of(logged).rglob("*") if path.is_file()]
    text = {".json", ".yaml", ".txt", ".md", ".py", ""}
    assert {path.suffix for path in files} <= text | {".safetensors"}
    assert not [path for path in files if path.suffix in text and b"\0" in path.read_bytes()]
    described = (folder_of(logged) / "MLmodel").read_text()
    assert "model_code_path: encoder.py" in described
    assert "python_model" not in described
    assert str(Path(__file__).parents[2]) not in described
    required = (folder_of(logged) / "requirements.txt").read_text().split()
    assert [line.partition("==")[0] for line in required] == ["lmk-core", "torch", "transformers", "mlflow"]
    assert all("==" in line and "+" not in line for line in required)


def test_a_model_that_was_cut_short_is_gone_on_with(trained, uri):
    """Killed while it puts the weights: no part can be loaded, and the next sync makes the same model whole."""
    script = (
        "import os, pathlib, signal, sys\n"
        "real = os.link\n"
        "def link(source, target, **how):\n"
        "    if 'uploading.model' in str(target): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(source, target, **how)\n"
        "os.link = link\n"
        "from lmk_experiments.mirror import sync\n"
        "sync(pathlib.Path(sys.argv[1]), uri=sys.argv[2])\n"
    )
    command = [sys.executable, "-c", script, str(trained.root.path), uri]
    assert subprocess.run(command, check=False, env=os.environ).returncode == -signal.SIGKILL
    (cut,) = trained.models()
    assert str(cut.status) == "PENDING"
    assert not (folder_of(cut) / "MLmodel").exists()
    assert (folder_of(cut) / "artifacts" / "model" / "config.json").exists()
    assert trained.root.runs(uri)[trained.identity].info.status == "FINISHED"
    assert sync(trained.root.path, uri=uri).warnings == []
    (logged,) = trained.models()
    assert (logged.model_id, str(logged.status)) == (cut.model_id, "READY")
    assert (folder_of(logged) / "MLmodel").exists()


def test_a_changed_model_takes_the_place_of_the_old_one(trained, uri):
    from lmk_core import Embedder

    sync(trained.root.path, uri=uri)
    (old,) = trained.models()
    before = (trained.model / "model.safetensors").read_bytes()
    embedder = Embedder.from_pretrained(trained.model, device="cpu")
    next(embedder.module.parameters()).data.add_(1.0)
    embedder.save_pretrained(trained.model)
    # The logged one is another file than the cell's now: what it holds did not change with the cell.
    assert (folder_of(old) / "artifacts" / "model" / "model.safetensors").read_bytes() == before
    report = sync(trained.root.path, uri=uri)
    assert report.warnings == []
    (new,) = trained.models()
    assert new.model_id != old.model_id
    assert not folder_of(old).exists()
    weights = folder_of(new) / "artifacts" / "model" / "model.safetensors"
    assert weights.read_bytes() == (trained.model / "model.safetensors").read_bytes() != before
    assert sync(trained.root.path, uri=uri).writes == 0


def test_a_refusal_is_a_warning_and_is_tried_again(trained, uri, tmp_path):
    own = f"sqlite:///{tmp_path / 'own' / 'mlflow.db'}"
    open_store(trained.root.path, own)
    blocked = tmp_path / "own" / "mlflow-artifacts" / "models"
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("in the way")
    (warning,) = sync(trained.root.path, uri=own).warnings
    assert "the model of cls was not taken" in warning
    assert "`lmk sync` tries it again" in warning
    (again,) = sync(trained.root.path, uri=own).warnings
    assert again == warning
    blocked.unlink()
    assert sync(trained.root.path, uri=own).warnings == []
    store = open_store(trained.root.path, own)
    (logged,) = store.client.search_logged_models([store.experiments["training"]])
    assert str(logged.status) == "READY"


def test_another_file_system_gets_a_copy_only_where_all_are_asked_for(trained, uri, monkeypatch):
    """The kernel's refusal of a link between file systems, which this machine may not have two of."""

    def refuse(source, target):
        raise OSError(18, "Invalid cross-device link", str(source))

    monkeypatch.setattr(os, "link", refuse)
    report = sync(trained.root.path, uri=uri)
    assert trained.models() == []
    (note,) = report.notes
    assert "left out: 1 model of finished trainings" in note
    assert "--models all" in note
    sync(trained.root.path, uri=uri, models="none")
    assert trained.models() == []
    assert sync(trained.root.path, uri=uri, models="all").notes == []
    (logged,) = trained.models()
    weights = folder_of(logged) / "artifacts" / "model" / "model.safetensors"
    assert weights.read_bytes() == (trained.model / "model.safetensors").read_bytes()
    assert not weights.samefile(trained.model / "model.safetensors")


def test_an_unknown_choice_names_the_valid_ones(monkeypatch):
    with pytest.raises(ValueError, match=r"--models: 'some'; valid: auto, all, none"):
        chosen_policy("some")
    monkeypatch.setenv("LMK_LOG_MODELS", "many")
    with pytest.raises(ValueError, match=r"LMK_LOG_MODELS: 'many'; valid"):
        chosen_policy()
    monkeypatch.setenv("LMK_LOG_MODELS", "none")
    assert chosen_policy() == "none"


def test_clean_says_what_mlflow_holds_too_and_counts_no_hard_link(trained, uri):
    sync(trained.root.path, uri=uri)
    weights = trained.model / "model.safetensors"
    left = trained.model.parent / ".model.old-1"
    left.mkdir()
    os.link(weights, left / "model.safetensors")
    (left / "config.json").write_bytes(b"x" * 1000)
    done = CliRunner().invoke(app, ["clean", "small", "--root", str(trained.root.path), "--yes"])
    assert done.exit_code == 0, done.output
    assert "1 model that MLflow holds too" in done.output
    assert "deleted; 1.0 kB freed" in done.output
    assert weights.exists()


def test_the_example_and_the_signature_fit_the_model(trained, uri):
    import mlflow

    sync(trained.root.path, uri=uri)
    (logged,) = trained.models()
    loaded = mlflow.pyfunc.load_model(str(folder_of(logged)), model_config={"device": "cpu"})
    vectors = loaded.predict(loaded.input_example)
    (width,) = np.unique([len(row) for row in vectors])
    assert loaded.metadata.get_output_schema().inputs[0].shape == (-1, width)
    saved = json.loads((trained.model / "lmk_config.json").read_text())
    params = {spec.name: spec.default for spec in loaded.metadata.get_params_schema().params}
    assert params["max_length"] == saved["max_length"]
    assert list(params) == [
        *("max_length", "granularity", "batch_tokens", "dim"),
        *("prompt", "prompt_name", "include_prompt", "bf16"),
    ]
