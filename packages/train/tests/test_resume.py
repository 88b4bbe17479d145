from __future__ import annotations

import errno
import io
import json
from pathlib import Path

import pytest
import torch
from pydantic import Field
from stopping import Stopped

from lmk_core import Embedder
from lmk_core.recording import NullRecorder
from lmk_train import fitting, train
from lmk_train.callbacks import CheckpointMismatchError, find_checkpoint
from lmk_train.config import LossConfig, TrainConfig

VARIABLE = {"kind": "landmark", "granularity": [2, 4, 8]}


def weights(model: Path) -> dict[str, torch.Tensor]:
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


def assert_same(left: Path, right: Path) -> None:
    ours, theirs = weights(left), weights(right)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("stop", [5, 7, 10])
@pytest.mark.parametrize("kind", [VARIABLE, {"kind": "latent_attention", "num_latents": 4}], ids=["landmark", "latent"])
def test_a_resumed_training_is_the_undisturbed_one(kind, stop, make_config, tmp_path, recorder, stop_after, rows_file):
    """Dropout is on, an epoch has 8 batches: random state, data order and schedule all have to go on exactly."""
    settings = {"pooling": kind, "optim__steps": 10, "runtime__checkpoint_every": 5}
    whole = train(make_config(pooling=kind, optim__steps=10), tmp_path / "whole", recorder)
    expected = recorder.curve("train/loss")

    config = make_config(**settings, data__validation=str(rows_file), runtime__validate_every=3)
    stop_after(stop)
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", recorder)
    assert (tmp_path / "run/checkpoints/last.ckpt").exists()
    assert not (tmp_path / "run/model").exists()
    stop_after(0)
    recorder.values.clear()
    torch.manual_seed(12345)
    resumed = train(config, tmp_path / "run", recorder)

    assert_same(resumed, whole)
    at = 5 if stop < 10 else 10
    assert recorder.curve("train/loss") == {step: loss for step, loss in expected.items() if step > at}
    assert {"event": "resumed", "step": at} in recorder.events
    assert 10 in recorder.curve("validation/ndcg_at_10")
    assert not (tmp_path / "run/checkpoints").exists()


def test_two_checkpoints_of_plain_values_and_no_litter(make_config, tmp_path, stop_after):
    stop_after(6)
    with pytest.raises(Stopped):
        train(make_config(optim__steps=7, runtime__checkpoint_every=2), tmp_path)
    content = {path.name: torch.load(path, weights_only=True) for path in (tmp_path / "checkpoints").iterdir()}
    assert {name: one["global_step"] for name, one in content.items()} == {"last.ckpt": 6, "previous.ckpt": 4}


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_an_unreadable_checkpoint_starts_over(content, make_config, tmp_path, recorder, stop_after, monkeypatch):
    config = make_config(runtime__checkpoint_every=3)
    whole = train(make_config(), tmp_path / "whole")
    path = tmp_path / "run/checkpoints/last.ckpt"
    if content is None:
        stop_after(3)
        with pytest.raises(Stopped):
            train(config, tmp_path / "run")
        stop_after(0)
        content = path.read_bytes()[:-1000]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    kept = {}
    monkeypatch.setattr(
        fitting,
        "mark_finished",
        lambda *_: kept.update((p.name, p.read_bytes()) for p in path.parent.glob("*.unreadable")),
    )
    resumed = train(config, tmp_path / "run", recorder)
    assert recorder.kinds() == ["start", "checkpoint_unreadable", "finished"]
    assert recorder.events[1]["path"] == str(path)
    assert kept == {"last.ckpt.unreadable": content}
    assert list(recorder.curve("train/loss")) == [1, 2, 3, 4, 5, 6]
    assert_same(resumed, whole)


def test_another_configuration_is_refused(make_config, tmp_path, stop_after):
    stop_after(3)
    with pytest.raises(Stopped):
        train(make_config(runtime__checkpoint_every=3), tmp_path)
    stop_after(0)
    with pytest.raises(CheckpointMismatchError, match=r"optim.learning_rate: 0.01 there, 0.001 here.*remove it"):
        train(make_config(optim__learning_rate=1e-3), tmp_path)
    assert (tmp_path / "checkpoints/last.ckpt").exists()


def test_the_runtime_and_the_places_of_files_may_change(make_config, tmp_path, stop_after, rows_file, tiny_model):
    whole = train(make_config(), tmp_path / "whole")
    stop_after(3)
    with pytest.raises(Stopped):
        train(make_config(runtime__checkpoint_every=3), tmp_path / "run")
    stop_after(0)
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(rows_file.read_bytes())
    config = make_config(data__train=[str(moved)], runtime={"accelerator": "cpu", "num_workers": 1, "log_every": 5})
    assert_same(train(config, tmp_path / "run"), whole)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_variable_granularity_resumes_with_workers(workers, make_config, tmp_path, recorder, stop_after):
    """Workers read ahead of the step at which the training dies; sizes are drawn in them."""
    whole = train(make_config(pooling=VARIABLE, optim__steps=10), tmp_path / "whole", recorder)
    expected = recorder.curve("train/loss")
    config = make_config(pooling=VARIABLE, optim__steps=10, runtime__num_workers=workers, runtime__checkpoint_every=3)
    stop_after(7)
    with pytest.raises(Stopped):
        train(config, tmp_path / "run")
    stop_after(0)
    recorder.values.clear()
    resumed = train(config, tmp_path / "run", recorder)
    assert {"event": "resumed", "step": 6} in recorder.events
    assert recorder.curve("train/loss") == {step: loss for step, loss in expected.items() if step > 6}
    assert_same(resumed, whole)


def test_an_error_of_the_disk_is_no_broken_checkpoint(make_config, tmp_path, recorder):
    """A folder stands for what opens but can't be read: nothing is trained, and nothing is overwritten."""
    path = tmp_path / "checkpoints/last.ckpt"
    path.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        train(make_config(runtime__checkpoint_every=3), tmp_path, recorder)
    assert recorder.kinds() == ["start"]
    assert path.is_dir()


class FaultyDisk(io.FileIO):
    """A file that can be opened and has a whole end, where zip files keep their index, but gives no middle."""

    def readinto(self, buffer):
        if 10_000 < self.tell() < 30_000:
            raise OSError(errno.EIO, "Input/output error")
        return super().readinto(buffer)


def test_an_error_in_the_middle_of_the_file_is_no_broken_checkpoint(
    make_config, tmp_path, recorder, stop_after, monkeypatch
):
    config = make_config(runtime__checkpoint_every=3)
    stop_after(3)
    with pytest.raises(Stopped):
        train(config, tmp_path)
    path = tmp_path / "checkpoints/last.ckpt"
    assert path.stat().st_size > 60_000
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode: io.BufferedReader(FaultyDisk(path, mode)))
        with pytest.raises(OSError, match="Input/output"):
            find_checkpoint(config, path, 64, recorder)
    assert find_checkpoint(config, path, 64, recorder) == path


class NewLoss(LossConfig):
    sharpness: float = Field(default=1.0, json_schema_extra={"identity_absent": 1.0})
    """A field of a later release."""


class NewConfig(TrainConfig):
    loss: NewLoss = NewLoss()


def test_a_field_that_came_later_leaves_old_checkpoints_resumable(make_config, tmp_path, recorder, stop_after):
    config = make_config(runtime__checkpoint_every=3)
    stop_after(3)
    with pytest.raises(Stopped):
        train(config, tmp_path / "run")
    stop_after(0)
    values = config.model_dump(mode="json")
    used = NewConfig.model_validate({**values, "loss": {**values["loss"], "sharpness": 2.0}})
    with pytest.raises(CheckpointMismatchError, match=r"\(loss.sharpness: None there, 2.0 here\)"):
        train(used, tmp_path / "run")
    train(NewConfig.model_validate(values), tmp_path / "run", recorder)
    assert {"event": "resumed", "step": 3} in recorder.events
    recorder.events.clear()
    train(config, tmp_path / "run", recorder)
    assert recorder.kinds() == ["already_trained"]


def test_a_checkpoint_that_counts_no_rows_is_resumable(make_config, tmp_path, recorder, stop_after):
    config = make_config(runtime__checkpoint_every=3)
    stop_after(3)
    with pytest.raises(Stopped):
        train(config, tmp_path)
    stop_after(0)
    path = tmp_path / "checkpoints" / "last.ckpt"
    content = torch.load(path, weights_only=True)
    described = json.loads(content["lmk_train"]["config"])
    del described["rows"]
    content["lmk_train"]["config"] = json.dumps(described)
    torch.save(content, path)
    train(config, tmp_path, recorder)
    assert {"event": "resumed", "step": 3} in recorder.events


def test_another_revision_or_number_of_rows_is_refused(make_config, make_rows, write_rows, tmp_path, stop_after):
    config = make_config(runtime__checkpoint_every=3)
    stop_after(3)
    with pytest.raises(Stopped):
        train(config, tmp_path)
    stop_after(0)
    with pytest.raises(CheckpointMismatchError, match=r"\(model.revision: None there, 'v2' here\)"):
        train(make_config(model={"path": config.model.path, "revision": "v2"}), tmp_path)
    fewer = write_rows(tmp_path / "rows.jsonl", make_rows(63))
    with pytest.raises(CheckpointMismatchError, match=r"\(rows: 64 there, 63 here\)"):
        train(make_config(data__train=[str(fewer)]), tmp_path)


def test_the_last_validation_has_the_precision_of_the_training(make_config, tmp_path, stop_after, rows_file, request):
    """Also when the checkpoint holds the last step, so that no step is taken before it; and when none is asked."""
    seen, computed = [], set()

    class Watcher(NullRecorder):
        def metrics(self, values, step):
            if "validation/ndcg_at_10" in values:
                seen.append((step, set(computed), values))
                computed.clear()

    def note(module, _inputs, output):
        # Only validations run in inference mode.
        if isinstance(module, torch.nn.Linear) and torch.is_inference_mode_enabled():
            computed.add(output.dtype)

    hook = torch.nn.modules.module.register_module_forward_hook(note)
    request.addfinalizer(hook.remove)
    config = make_config(precision="bf16", data__validation=str(rows_file), runtime__checkpoint_every=6)
    stop_after(6)
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", Watcher())
    stop_after(0)
    train(config, tmp_path / "run", Watcher())
    assert [step for step, *_ in seen] == [6, 6]
    assert seen[0] == seen[1]
    train(make_config(precision="bf16", data__validation=str(rows_file), optim__steps=0), tmp_path / "0", Watcher())
    assert [found for _, found, _ in seen] == [{torch.bfloat16}] * 3
    train(make_config(data__validation=str(rows_file), optim__steps=0), tmp_path / "fp32", Watcher())
    assert seen[-1][1] == {torch.float32}
