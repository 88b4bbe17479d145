"""Habits of libraries that have spoilt trainings elsewhere; each was measured before it was avoided here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment
from stopping import Stopped

from lmk_core import Embedder
from lmk_train import train
from lmk_train.modules import ContrastiveModule


def test_what_is_loaded_is_trained_in_training_mode_and_saved_in_evaluation_mode(make_config, tmp_path, monkeypatch):
    """``from_pretrained`` gives a model in evaluation mode, and Lightning keeps what it is given: no dropout."""
    modes = []
    step = ContrastiveModule.training_step

    def watched(self: ContrastiveModule, *args: object) -> torch.Tensor:
        modes.append({module.training for module in self.modules()})
        return step(self, *args)

    monkeypatch.setattr(ContrastiveModule, "training_step", watched)
    config = make_config(optim__steps=2)
    embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, device="cpu")
    assert {module.training for module in embedder.module.modules()} == {False}
    train(config, tmp_path)
    assert modes == [{True}] * 2


def test_counting_the_steps_before_the_fit_replays_no_batches(make_config, tmp_path, stop_after, monkeypatch):
    """``estimated_stepping_batches`` lays the batches out before a checkpoint is read: from step 0, without a word."""
    config = make_config(optim__steps=5, runtime__checkpoint_every=3)
    stop_after(3)
    with pytest.raises(Stopped):
        train(config, tmp_path)
    stop_after(0)
    optimizers = ContrastiveModule.configure_optimizers

    def counting(self: ContrastiveModule) -> object:
        assert self.trainer.estimated_stepping_batches == 5
        return optimizers(self)

    with monkeypatch.context() as patch:
        patch.setattr(ContrastiveModule, "configure_optimizers", counting)
        with pytest.raises(RuntimeError, match="the batches begin at step 0, and the training goes on from step 3"):
            train(config, tmp_path)
    train(config, tmp_path)


def test_a_strangers_checkpoint_is_not_resumed(make_config, tmp_path, recorder, stop_after, monkeypatch):
    """In a job of SLURM, Lightning goes on from any ``hpc_ckpt_*.ckpt`` of its root folder, which others may share."""
    stop_after(3)
    with pytest.raises(Stopped):
        train(make_config(seed=1, runtime__checkpoint_every=3), tmp_path / "stranger")
    stop_after(0)
    stranger = tmp_path / "stranger" / "checkpoints" / "last.ckpt"
    # A batch script of a job of several tasks, which Lightning's own environment refuses without their number a node.
    for name, value in {"JOB_ID": "17", "JOB_NAME": "train", "NTASKS": "2", "PROCID": "0", "LOCALID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert SLURMEnvironment.detect()
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    for place in (tmp_path, folder):
        shutil.copy(stranger, place / "hpc_ckpt_5.ckpt")
    train(make_config(), folder, recorder)
    assert recorder.kinds() == ["start", "finished"]
    assert list(recorder.curve("train/loss")) == [1, 2, 3, 4, 5, 6]
    assert sorted(path.name for path in folder.iterdir()) == ["TRAINED.json", "hpc_ckpt_5.ckpt", "model"]


TRACKED = """
import sys
from pathlib import Path

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        print("network:", event, arguments, flush=True)

sys.addaudithook(watch)
from lmk_train import train
from lmk_train.config import TrainConfig
train(TrainConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
print("imported:", [name for name in sys.modules if name.split(".")[0] in ("mlflow", "mlflow_skinny", "wandb")])
"""


def test_a_training_talks_to_no_tracking_server(make_config, tmp_path):
    """One call to a server that is down blocks for 248 s and then ends the training: none is made."""
    environment = {"MLFLOW_TRACKING_URI": "http://192.0.2.1:5000", "MLFLOW_EXPERIMENT_NAME": "any"}
    done = subprocess.run(
        [sys.executable, "-c", TRACKED, make_config(optim__steps=2).model_dump_json(), str(tmp_path)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["imported: []"]
    assert (Path(tmp_path) / "TRAINED.json").exists()
