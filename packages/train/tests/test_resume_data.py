"""A training that is stopped in the middle of an epoch goes on with the batches that were next."""

from __future__ import annotations

import pytest
from stopping import Stopped

from lmk_train import train
from lmk_train.callbacks import Checkpoints


@pytest.fixture
def files(make_rows, write_rows, tmp_path):
    """Three files of different sizes, 61 rows in all."""
    for place, count in enumerate((21, 13, 27)):
        write_rows(tmp_path / f"{place}.jsonl", make_rows(count, seed=place, negatives=4, scores=place == 1))
    return [str(tmp_path / f"{place}.jsonl") for place in range(3)]


def mixture(files):
    return {"data__train": [{"path": files[0], "weight": 2.5}, files[1], {"path": files[2], "batch_size": 5}]}


def shares(files):
    return {"data__train": [{"path": path, "share": share} for path, share in zip(files, (9, 2, 1), strict=True)]}


def stream(files):
    return {"data__train": [{"path": files}], "data__stream_buffer": 10}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [mixture, shares, stream])
def test_losses_of_a_resumed_training(kind, workers, files, make_config, tmp_path, recorder, monkeypatch):
    """Stopped at step 7 of 20, with variable granularity and dropout: the losses of an undisturbed run, bit for bit."""
    settings = {"pooling": {"kind": "landmark", "granularity": [2, 4, 8]}, "optim__steps": 20, **kind(files)}
    train(make_config(**settings), tmp_path / "whole", recorder)
    expected = recorder.curve("train/loss")
    assert len(expected) == 20
    recorder.values.clear()

    original = Checkpoints.on_train_batch_end

    def hook(self, trainer, *args):
        original(self, trainer, *args)
        if trainer.global_step == 7:
            raise Stopped

    config = make_config(**settings, runtime__num_workers=workers, runtime__checkpoint_every=7)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "on_train_batch_end", hook)
        with pytest.raises(Stopped):
            train(config, tmp_path / "run", recorder)
    train(config, tmp_path / "run", recorder)
    assert recorder.curve("train/loss") == expected
