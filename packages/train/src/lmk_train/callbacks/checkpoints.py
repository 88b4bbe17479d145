"""Checkpoints that a killed training resumes from, exactly."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lmk_core.recording import Recorder
from lmk_train.config import TrainConfig
from lmk_train.modules.finite import check_weights

_KEY = "lmk_train"
"""Our own entry of a checkpoint."""


class CheckpointMismatchError(ValueError):
    """A checkpoint was made by another configuration than the one that would resume it."""


class Checkpoints(Callback):
    """Writes ``path`` every ``every`` steps, and gives a resumed training the random state it had there.

    A checkpoint is written beside ``path`` and then renamed: ``path`` is always a whole one. It holds tensors and plain
    values only, so that it loads with ``weights_only=True``.
    """

    def __init__(self, config: TrainConfig, path: Path) -> None:
        self.config, self.path = config, path
        self._random_state: dict[str, Any] | None = None

    def save(self, trainer: Trainer) -> None:
        """Writes a checkpoint of the step that was just done."""
        check_weights(trainer.lightning_module, trainer.global_step, self.config.optim)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            trainer.save_checkpoint(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())  # else a crash of the machine can leave an empty file under the final name
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        # As late as possible: whatever Lightning draws while it sets up must not move dropout's numbers.
        if self._random_state is not None:
            _set_random_state(self._random_state)
            self._random_state = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        every = self.config.runtime.checkpoint_every
        if every is not None and trainer.global_step % every == 0:
            self.save(trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint[_KEY] = {"config": resumable(self.config), "random": _random_state()}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._random_state = checkpoint[_KEY]["random"]


def find_checkpoint(config: TrainConfig, path: Path, recorder: Recorder) -> Path | None:
    """The checkpoint to resume from, or ``None`` to start at the beginning.

    One that can't be read is told to the recorder as ``checkpoint_unreadable``, and passed over.

    Raises:
        CheckpointMismatchError: It was made by another configuration; the message lists what differs.
    """
    if not path.exists():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        theirs, step = json.loads(content[_KEY]["config"]), int(content["global_step"])
    except Exception as error:  # noqa: BLE001 (a broken file fails in any way: zip, pickle, missing keys)
        recorder.event("checkpoint_unreadable", path=str(path), error=f"{type(error).__name__}: {error}"[:500])
        return None
    differences = _differences(theirs, json.loads(resumable(config)))
    if differences:
        raise CheckpointMismatchError(
            f"{path}: this checkpoint was made by another configuration ({'; '.join(differences)}); "
            "use another folder, or remove it to start over"
        )
    recorder.event("resumed", step=step)
    return path


def resumable(config: TrainConfig) -> str:
    """The part of a configuration that may not change between a checkpoint and its resumption, as JSON.

    Paths may: the same files can lie elsewhere. The identity of their content is checked by who names the folder.
    """
    values = config.model_dump(mode="json", exclude={"runtime": True, "data": {"train", "validation"}})
    del values["model"]
    return json.dumps(values, sort_keys=True)


def _differences(theirs: dict[str, Any], ours: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key in sorted(theirs.keys() | ours.keys()):
        old, new = theirs.get(key), ours.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(f"{prefix}{key}: {old!r} there, {new!r} here")
    return found


def _random_state() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
