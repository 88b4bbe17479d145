"""Checkpoints that a killed training resumes from, exactly."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lmk_core.recording import Recorder
from lmk_train.callbacks.checkpoint_files import (
    CheckpointFiles,
    CheckpointNotWrittenError,
    DamagedCheckpointError,
    previous_of,
    read_checkpoint,
    set_aside,
)
from lmk_train.config import AnyConfig
from lmk_train.config.resumable import differences, resumable
from lmk_train.modules.finite import check_weights

if TYPE_CHECKING:
    from lmk_train.ranks.group import Ranks

_KEY = "lmk_train"
"""Our own entry of a checkpoint."""


class CheckpointMismatchError(ValueError):
    """A checkpoint was made by another configuration than the one that would resume it."""


class Checkpoints(Callback):
    """Writes ``path`` every ``every`` steps, and gives a resumed training the random states it had there.

    How the files are written is said in :class:`lmk_train.callbacks.checkpoint_files.CheckpointFiles`, which the
    trainer has to have. They hold tensors and plain values only, and load with ``weights_only=True``.

    Args:
        config: The training.
        path: Where the checkpoint goes.
        rows: How many rows are trained on: with another number a resumed order would be another one.
        ranks: All of them save together: the first writes, and the random states of each are in the checkpoint.

    Raises:
        NonFiniteError: A weight is NaN or infinite; the checkpoint before stays.
        CheckpointNotWrittenError: The disk is full, or takes no more; the checkpoint before stays. On every rank.
    """

    def __init__(self, config: AnyConfig, path: Path, rows: int, ranks: Ranks) -> None:
        self.config, self.path, self.rows, self.ranks = config, path, rows, ranks
        self.saved_at = 0
        """The step of the last checkpoint; 0 while there is none."""
        self._random_state: dict[str, Any] | None = None

    def save(self, trainer: Trainer) -> None:
        """Writes a checkpoint of the step that was just done, if there is none yet. All ranks do it together."""
        if self.saved_at == trainer.global_step:
            return
        check_weights(trainer.lightning_module, trainer.global_step, self.config.optim)
        files = trainer.strategy.checkpoint_io
        assert isinstance(files, CheckpointFiles)
        trainer.save_checkpoint(self.path)  # on every rank: the first writes it
        failed = self.ranks.share(files.failed)
        if failed:
            raise CheckpointNotWrittenError(failed)
        self.saved_at = trainer.global_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        data: Any = trainer.datamodule  # ty: ignore[missing-attribute]
        began_at = getattr(data, "began_at", trainer.global_step)
        if began_at != trainer.global_step:
            raise RuntimeError(
                f"the batches begin at step {began_at}, and the training goes on from step {trainer.global_step}: "
                "something asked for them before the checkpoint was read, such as trainer.estimated_stepping_batches"
            )

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
        states = self.ranks.gather(_random_state())
        checkpoint[_KEY] = {
            "config": _described(self.config, self.rows),
            "random": states[0],
            "random_of_others": states[1:],
        }

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self.saved_at = int(checkpoint["global_step"])
        states = _states(checkpoint[_KEY])
        rank = self.ranks.place.rank
        # A rank that there was not keeps the numbers that it was seeded with.
        self._random_state = states[rank] if rank < len(states) else None


def find_checkpoint(config: AnyConfig, path: Path, rows: int, recorder: Recorder, *, processes: int = 1) -> Path | None:
    """The checkpoint to resume from: ``path``, the one before it where ``path`` is damaged, or ``None`` to start at the
    beginning.

    One of another number of processes is resumed: the rows of every step are the same. Without dropout the weights are
    those of an undisturbed training, as close as those of two numbers of processes are; with it, the draws differ from
    there on. The event ``resumed`` then says how many there were.

    A damaged one is told to the recorder as ``checkpoint_unreadable``, renamed, and passed over.

    Raises:
        CheckpointMismatchError: It was made by another configuration; the message lists what differs.
        OSError: The disk did not give it; it may be whole.
        MemoryError: It may be whole, but there is no room for it.
    """
    for one in (path, previous_of(path)):
        if not one.exists():
            continue
        try:
            entry, step = _read(one)
        except DamagedCheckpointError as error:
            kept = set_aside(one)
            recorder.event("checkpoint_unreadable", path=str(one), kept=str(kept), error=str(error))
            continue
        theirs, before = json.loads(entry["config"]), len(_states(entry))
        # Checkpoints of before the number of rows was recorded do not contradict it.
        different = differences({"rows": rows, **theirs}, json.loads(_described(config, rows)))
        if different:
            raise CheckpointMismatchError(
                f"{one}: this checkpoint was made by another configuration ({'; '.join(different)}); "
                "use another folder, or remove it to start over"
            )
        said = {} if one == path else {"file": one.name}
        recorder.event("resumed", step=step, **said, **({} if before == processes else {"processes_before": before}))
        return one
    return None


def _read(path: Path) -> tuple[dict[str, Any], int]:
    """Our own entry of a checkpoint, and its step."""
    content = read_checkpoint(path)
    try:
        entry, step = content[_KEY], int(content["global_step"])
        json.loads(entry["config"])
        _states(entry)
    except Exception as error:
        raise DamagedCheckpointError(f"no checkpoint of a training: {type(error).__name__}: {error}") from error
    return entry, step


def _described(config: AnyConfig, rows: int) -> str:
    return json.dumps({**resumable(config), "rows": rows}, sort_keys=True)


def _states(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The random state of each rank; a checkpoint of before there were several has one."""
    return [entry["random"], *entry.get("random_of_others", [])]


def _random_state() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    state = np.random.get_state(legacy=True)
    assert isinstance(state, tuple)
    name, numbers, *rest = state
    return {
        "cpu": torch.get_rng_state(),
        "cuda": cuda,
        "numpy": (name, torch.from_numpy(np.asarray(numbers, np.int64)), *rest),
        "python": random.getstate(),
    }


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
    # Of before: torch's alone.
    if "numpy" in state:
        name, numbers, *rest = state["numpy"]
        np.random.set_state((name, numbers.numpy().astype(np.uint32), *rest))
    if "python" in state:
        random.setstate(state["python"])
