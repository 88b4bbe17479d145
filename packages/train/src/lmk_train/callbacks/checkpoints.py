"""Checkpoints that a killed training resumes from, exactly."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lmk_core.recording import Recorder
from lmk_train.config import AnyConfig
from lmk_train.config.resumable import resumable
from lmk_train.modules.finite import check_weights

if TYPE_CHECKING:
    from lmk_train.ranks.group import Ranks

_KEY = "lmk_train"
"""Our own entry of a checkpoint."""


class CheckpointMismatchError(ValueError):
    """A checkpoint was made by another configuration than the one that would resume it."""


class Checkpoints(Callback):
    """Writes ``path`` every ``every`` steps, and gives a resumed training the random state it had there.

    A checkpoint is written beside ``path`` and then renamed: ``path`` is always a whole one. It holds tensors and plain
    values only, so that it loads with ``weights_only=True``.

    Args:
        config: The training.
        path: Where the checkpoint goes.
        rows: How many rows are trained on: with another number a resumed order would be another one.
        ranks: All of them save together: the first writes, and the random state of each is in the checkpoint.

    Raises:
        NonFiniteError: A weight is NaN or infinite; the checkpoint before stays.
    """

    def __init__(self, config: AnyConfig, path: Path, rows: int, ranks: Ranks) -> None:
        self.config, self.path, self.rows, self.ranks = config, path, rows, ranks
        self._random_state: dict[str, Any] | None = None
        self._saved_at = -1

    def save(self, trainer: Trainer) -> None:
        """Writes a checkpoint of the step that was just done, if there is none yet. All ranks do it together."""
        if self._saved_at == trainer.global_step:
            return
        check_weights(trainer.lightning_module, trainer.global_step, self.config.optim)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        if self.ranks.first:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            trainer.save_checkpoint(temporary)  # on every rank: the first writes it
            if self.ranks.first:
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())  # else a crash of the machine can leave an empty file under the final name
                temporary.replace(self.path)
        finally:
            if self.ranks.first:
                temporary.unlink(missing_ok=True)
        self._saved_at = trainer.global_step

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
        states = _states(checkpoint[_KEY])
        rank = self.ranks.place.rank
        # A rank that there was not keeps the numbers that it was seeded with.
        self._random_state = states[rank] if rank < len(states) else None


def remove_drafts(path: Path) -> None:
    """Removes what a killed process has left of a checkpoint that it was writing: a folder has one training."""
    for draft in path.parent.glob(f".{path.name}.*"):
        draft.unlink(missing_ok=True)


def find_checkpoint(config: AnyConfig, path: Path, rows: int, recorder: Recorder, *, processes: int = 1) -> Path | None:
    """The checkpoint to resume from, or ``None`` to start at the beginning.

    One of another number of processes is resumed: the rows of every step are the same. Without dropout the weights are
    those of an undisturbed training, as close as those of two numbers of processes are; with it, the draws differ from
    there on. The event ``resumed`` then says how many there were.

    A broken one is told to the recorder as ``checkpoint_unreadable``, renamed, and passed over.

    Raises:
        CheckpointMismatchError: It was made by another configuration; the message lists what differs.
        OSError: The disk did not give it; it may be whole.
        MemoryError: It may be whole, but there is no room for it.
    """
    if not path.exists():
        return None
    try:
        # Opened here: torch's own reader of paths makes a RuntimeError of every error of the disk.
        with path.open("rb") as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
        theirs, step = json.loads(content[_KEY]["config"]), int(content["global_step"])
        before = len(_states(content[_KEY]))
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if "can't allocate memory" in str(error):
            raise MemoryError(f"{path}: {error}") from error
        kept = _set_aside(path)
        message = f"{type(error).__name__}: {error}"[:500]
        recorder.event("checkpoint_unreadable", path=str(path), kept=str(kept), error=message)
        return None
    # Checkpoints of before the number of rows was recorded do not contradict it.
    differences = _differences({"rows": rows, **theirs}, json.loads(_described(config, rows)))
    if differences:
        raise CheckpointMismatchError(
            f"{path}: this checkpoint was made by another configuration ({'; '.join(differences)}); "
            "use another folder, or remove it to start over"
        )
    recorder.event("resumed", step=step, **({} if before == processes else {"processes_before": before}))
    return path


def _set_aside(path: Path) -> Path:
    """Renames a broken checkpoint, so that the next one does not overwrite what could still be looked into."""
    number = 1
    while (kept := path.with_name(f"{path.name}.unreadable-{number}")).exists():
        number += 1
    return path.rename(kept)


def _described(config: AnyConfig, rows: int) -> str:
    return json.dumps({**resumable(config), "rows": rows}, sort_keys=True)


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    old, new = _flat(theirs), _flat(ours)
    return [
        f"{key}: {old.get(key)!r} there, {new.get(key)!r} here"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _states(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The random state of each rank; a checkpoint of before there were several has one."""
    return [entry["random"], *entry.get("random_of_others", [])]


def _random_state() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
