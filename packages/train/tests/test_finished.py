from __future__ import annotations

import json
import re
import shutil

import pytest
import torch

from lmk_core import Embedder
from lmk_train import OtherModelError, PrintRecorder, fitting, train


class Killed(Exception):
    pass


@pytest.fixture
def kill(monkeypatch):
    """Makes ``train`` die where it calls this function of its module, until it is revived."""
    originals = {}

    def die(*args):
        raise Killed

    def arm(name: str, *, alive: bool = False) -> None:
        originals.setdefault(name, getattr(fitting, name))
        monkeypatch.setattr(fitting, name, originals[name] if alive else die)

    return arm


def weights(model) -> dict[str, torch.Tensor]:
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


def same(left, right) -> bool:
    return all(torch.equal(value, right[name]) for name, value in left.items())


def test_a_finished_model_is_returned_at_once(make_config, tmp_path, recorder, rows_file):
    rows = tmp_path / "rows.jsonl"
    shutil.copy(rows_file, rows)
    config = make_config(data__train=[str(rows)])
    model = train(config, tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["TRAINED.json", "model"]
    rows.unlink()
    written = (model / "model.safetensors").stat().st_mtime_ns
    assert train(config, tmp_path / "run", recorder) == model
    assert recorder.kinds() == ["already_trained"]
    assert (model / "model.safetensors").stat().st_mtime_ns == written
    again = make_config(data__train=[f"elsewhere/{rows.name}"], runtime={"accelerator": "cpu", "num_workers": 3})
    assert train(again, tmp_path / "run") == model


def test_the_recorder_that_prints_says_that_it_goes_on(make_config, tmp_path, kill, capsys):
    config = make_config(runtime__checkpoint_every=4)
    kill("mark_finished")
    with pytest.raises(Killed):
        train(config, tmp_path, PrintRecorder())
    steps = config.optim.steps
    said = capsys.readouterr().err
    assert re.search(rf"^step {steps}/{steps}, train/loss \d", said, re.MULTILINE)
    assert "resumed" not in said
    kill("mark_finished", alive=True)
    train(config, tmp_path, PrintRecorder())
    assert "\nresumed: step 4\n" in capsys.readouterr().err
    train(config, tmp_path, PrintRecorder())
    assert capsys.readouterr().err == f"already trained: steps {steps}\n"


def test_killed_before_the_mark_it_goes_on_from_the_checkpoint(make_config, tmp_path, recorder, kill):
    whole = train(make_config(), tmp_path / "whole")
    config = make_config(runtime__checkpoint_every=4)
    kill("mark_finished")
    with pytest.raises(Killed):
        train(config, tmp_path / "run")
    assert (tmp_path / "run/checkpoints/last.ckpt").exists()
    kill("mark_finished", alive=True)
    model = train(config, tmp_path / "run", recorder)
    assert {"event": "resumed", "step": 4} in recorder.events
    assert same(weights(model), weights(whole))
    assert not (tmp_path / "run/checkpoints").exists()


def test_killed_behind_the_mark_nothing_is_trained_again(make_config, tmp_path, recorder, kill):
    config = make_config(runtime__checkpoint_every=4)
    kill("remove_checkpoints")
    with pytest.raises(Killed):
        train(config, tmp_path)
    assert (tmp_path / "checkpoints/last.ckpt").exists()
    kill("remove_checkpoints", alive=True)
    train(config, tmp_path, recorder)
    assert recorder.kinds() == ["already_trained"]
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"optim__learning_rate": 2e-2}, {"optim__steps": 0}, {"model_name": "other"}]
)
def test_a_model_of_another_configuration_is_never_replaced(change, make_config, tmp_path, recorder, tiny_model):
    model = train(make_config(), tmp_path / "run")
    before = (model / "model.safetensors").read_bytes()
    key = next(iter(change)).replace("__", ".").replace("model_name", "model.path")
    if "model_name" in change:
        change = {"model": {"path": str(tmp_path / change["model_name"])}}
        shutil.copytree(tiny_model, change["model"]["path"])
    changed = make_config(**change)
    with pytest.raises(OtherModelError, match=f"another configuration .{key}: .* there, .* here.; use another folder"):
        train(changed, tmp_path / "run", recorder)
    assert recorder.kinds() == []
    assert (model / "model.safetensors").read_bytes() == before
    # The way out that the message names.
    shutil.rmtree(model)
    (tmp_path / "run" / "TRAINED.json").unlink()
    train(changed, tmp_path / "run", recorder)
    assert recorder.kinds() == ["start", "finished"]


def test_the_mark_of_an_earlier_version_refuses_too(make_config, tmp_path):
    train(make_config(optim__steps=0), tmp_path)
    mark = json.loads((tmp_path / "TRAINED.json").read_text())
    (tmp_path / "TRAINED.json").write_text(json.dumps({"schema": 1, "config": mark["config"]}))
    with pytest.raises(OtherModelError, match="the finished model of another configuration; use another folder"):
        train(make_config(seed=1), tmp_path)
    train(make_config(optim__steps=0), tmp_path)


def test_a_mark_never_outlives_its_model(make_config, tmp_path, recorder, kill):
    shutil.rmtree(train(make_config(), tmp_path))
    kill("mark_finished")
    with pytest.raises(Killed):
        train(make_config(seed=1), tmp_path)
    kill("mark_finished", alive=True)
    train(make_config(), tmp_path, recorder)
    assert recorder.kinds() == ["start", "finished"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}'])
def test_a_mark_that_says_nothing_is_none(content, make_config, tmp_path, recorder):
    train(make_config(), tmp_path)
    (tmp_path / "TRAINED.json").write_text(content)
    train(make_config(), tmp_path, recorder)
    assert recorder.kinds() == ["start", "finished"]
    assert json.loads((tmp_path / "TRAINED.json").read_text())["schema"] == 1


def test_a_mark_without_a_model_is_none(make_config, tmp_path, recorder):
    model = train(make_config(), tmp_path)
    shutil.rmtree(model)
    train(make_config(), tmp_path, recorder)
    assert recorder.kinds() == ["start", "finished"]
    assert model.exists()
