"""The same weights on any number of processes, and on resumption."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from lmk_train import train
from lmk_train.config import TrainConfig
from lmk_train.ranks import RankFailedError

sys.path.append(str(Path(__file__).parent))  # the forks import it by its name
from rank_trainings import train_on

Configure = Callable[..., TrainConfig]


@pytest.fixture(name="configure")
def configure_fixture(make_config: Configure, tiny_model: Path, tmp_path: Path, rows_file: Path) -> Configure:
    """A training of 6 steps; ``dropout`` or none, so that the number of processes does not matter."""

    def configure(*, dropout: bool, **changes: Any) -> TrainConfig:
        model = tmp_path / f"dropout-{dropout}"
        if not model.exists():
            shutil.copytree(tiny_model, model)
            settings = json.loads((model / "config.json").read_text())
            if not dropout:
                settings |= {name: 0.0 for name in settings if name.endswith("dropout")}
            (model / "config.json").write_text(json.dumps(settings))
            # A fresh model reads all texts alike: of gradients that small, rounding is a good part.
            fresh = load_file(model / "model.safetensors")
            bold = {
                name: value * 10 if "layers." in name and value.ndim == 2 else value for name, value in fresh.items()
            }
            save_file(bold, model / "model.safetensors", metadata={"format": "pt"})
        chosen = {
            "model": {"path": str(model)},
            "pooling": {"kind": "landmark", "granularity": [2, 4]},
            "optim__learning_rate": 1e-3,
            "optim__eps": 1e-6,
            "runtime__checkpoint_every": 2,
            "data__validation": str(rows_file),
            "runtime__validate_every": 3,
        }
        return make_config(**{**chosen, **changes})

    return configure


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def largest_difference(left: Path, right: Path) -> float:
    ours, theirs = weights(left), weights(right)
    assert ours.keys() == theirs.keys()
    return max((ours[name] - theirs[name]).abs().max().item() for name in ours)


def curve(heard: list[dict[str, Any]], name: str = "train/loss") -> dict[int, float]:
    return {line["step"]: line["values"][name] for line in heard if name in line.get("values", {})}


def events(heard: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in heard if line.get("event") == kind]


def test_the_weights_are_the_same_on_one_two_and_three_processes(configure, tmp_path, recorder):
    config = configure(dropout=False)
    train(config, tmp_path / "1", recorder)
    heard = {size: train_on(size, config, tmp_path / str(size)) for size in (2, 3)}  # 8 rows: 4 + 4, 3 + 3 + 2
    for size in (2, 3):
        assert largest_difference(tmp_path / "1", tmp_path / str(size)) < 1e-6
        assert curve(heard[size]) == pytest.approx(recorder.curve("train/loss"), abs=1e-6)
        assert list(curve(heard[size], "validation/ndcg_at_10")) == [3, 6]
    [start] = events(heard[3], "start")
    assert (start["processes"], start["devices_per_node"], start["nodes"]) == (3, 3, [socket.gethostname()])
    assert [line["event"] for line in heard[2] if "event" in line] == recorder.kinds()


@pytest.mark.parametrize("last_batch", ["drop", "spread"])
def test_an_uneven_end_of_an_epoch_hangs_nobody(configure, tmp_path, recorder, make_rows, write_rows, last_batch):
    rows = write_rows(tmp_path / "rows.jsonl", make_rows(101))
    # 12 batches of 8 and 5 rows that are dropped, or 13 of 7 and 8; 7 are 4 + 3. Step 14 is in the second epoch.
    changes = {"data__train": [str(rows)], "data__last_batch": last_batch, "optim__steps": 14}
    config = configure(dropout=False, data__validation=None, runtime__checkpoint_every=None, **changes)
    train(config, tmp_path / "1", recorder)
    heard = train_on(2, config, tmp_path / "2")
    assert list(curve(heard)) == list(range(1, 15))
    assert curve(heard) == pytest.approx(recorder.curve("train/loss"), abs=1e-5)
    assert largest_difference(tmp_path / "1", tmp_path / "2") < 1e-5


def test_another_number_of_processes_goes_on_with_a_checkpoint(configure, tmp_path, recorder):
    config = configure(dropout=False)
    train(config, tmp_path / "whole")
    train_on(2, config, tmp_path / "fewer", stop=3)
    train(config, tmp_path / "fewer", recorder)
    assert {"event": "resumed", "step": 2, "processes_before": 2} in recorder.events
    train_on(1, config, tmp_path / "more", stop=3)
    heard = train_on(2, config, tmp_path / "more")
    assert events(heard, "resumed") == [{"event": "resumed", "step": 2, "processes_before": 1}]
    for folder in ("fewer", "more"):
        assert largest_difference(tmp_path / "whole", tmp_path / folder) < 1e-6


class Killer:
    """A recorder that kills a rank which the training has started, once a checkpoint is there."""

    def __init__(self, recorder: Any, rank: int) -> None:
        self.recorder, self.rank = recorder, rank

    def event(self, kind: str, **fields: Any) -> None:
        self.recorder.event(kind, **fields)

    def progress(self, *_: Any) -> None:
        pass

    def metrics(self, values: dict[str, float], step: int) -> None:
        self.recorder.metrics(values, step)
        if step == 3 and "train/loss" in values:
            ranks = [one for one in psutil.Process().children() if "lmk_train.ranks.child" in one.cmdline()]
            os.kill(sorted(one.pid for one in ranks)[self.rank], signal.SIGKILL)


def test_ranks_resume_exactly_also_when_one_was_killed(configure, tmp_path, recorder):
    """Dropout is on: each rank has numbers of its own, and goes on with them."""
    config = configure(dropout=True)
    expected = train_on(2, config, tmp_path / "whole")
    train_on(2, config, tmp_path / "run", stop=5)
    states = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)["lmk_train"]
    assert not torch.equal(states["random"]["cpu"], states["random_of_others"][0]["cpu"])
    heard = train_on(2, config, tmp_path / "run")
    assert events(heard, "resumed") == [{"event": "resumed", "step": 4}]
    assert curve(heard) == {step: loss for step, loss in curve(expected).items() if step > 4}
    assert largest_difference(tmp_path / "whole", tmp_path / "run") == 0

    config = configure(dropout=True, runtime__devices=2)
    with pytest.raises(RankFailedError, match=r"rank 1 of 2 on \S+: it was ended by SIGKILL"):
        train(config, tmp_path / "killed", Killer(recorder, rank=1))
    assert recorder.events[-1]["event"] == "rank_failed"
    assert not (tmp_path / "killed/model").exists()
    recorder.values.clear()
    train(config, tmp_path / "killed", recorder)
    assert {"event": "resumed", "step": 2} in recorder.events
    assert recorder.curve("train/loss") == {step: loss for step, loss in curve(expected).items() if step > 2}
    assert largest_difference(tmp_path / "whole", tmp_path / "killed") == 0
    train(config, tmp_path / "killed", recorder)
    assert recorder.kinds()[-1] == "already_trained"
    assert not [path for path in (tmp_path / "killed").iterdir() if path.name not in ("model", "TRAINED.json")]


@pytest.mark.parametrize(
    ("runtime", "batch", "told"),
    [
        ({"nodes": 2}, 8, r"runtime\.nodes is 2, .*valid: 1, or start 2 tasks with srun --nodes 2 --ntasks-per-node 1"),
        ({"devices": 9}, 8, r"optim\.batch_size is 8, and there are 9 processes \(runtime\.devices x runtime\.nodes\)"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_starts(runtime, batch, told, configure, tmp_path):
    config = configure(dropout=True, runtime={"accelerator": "cpu", **runtime}, optim__batch_size=batch)
    with pytest.raises(ValueError, match=told):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_step_of_srun_has_to_be_what_the_configuration_says(configure, tmp_path, monkeypatch):
    step = {"STEP_NUM_TASKS": 4, "STEP_NUM_NODES": 2, "STEP_TASKS_PER_NODE": "2(x2)", "STEP_NODELIST": "127.0.0.1"}
    for name, value in {**step, "PROCID": 0, "LOCALID": 0, "NODEID": 0, "JOB_ID": 17, "STEP_ID": 0}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    with pytest.raises(ValueError, match=r"runtime\.nodes is 1, and srun has started this step with 2 nodes"):
        train(configure(dropout=True), tmp_path / "run")
    with pytest.raises(ValueError, match=r"runtime\.devices is 1, .* with 2 tasks on each node"):
        train(configure(dropout=True, runtime__nodes=2), tmp_path / "run")
