"""What a training tells its recorder, and its user."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from tqdm import tqdm

from lmk_core.recording import Recorder

PATIENCE = 5.0
"""Seconds after which it is worth a record that a file is still being tokenized."""

PROGRESS_SECONDS = 0.5
"""Least time between two reports of progress: a step may take a millisecond, a record is a file."""


class MetricsReporter(Callback):
    """Records the loss, the learning rate and the speed of every ``every`` steps, and the progress of each step.

    ``train/loss`` and ``train/learning_rate`` are those of the step itself, not means since the last record: a resumed
    training records the same curve. ``train/tokens_per_second`` is the mean since the last record, without padding.
    """

    def __init__(self, recorder: Recorder, every: int, steps: int) -> None:
        self.recorder, self.every, self.steps = recorder, every, steps
        self._learning_rate = 0.0
        self._tokens = 0
        self._since = self._progress_at = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        # Read here: at the batch's end the schedule has already moved on.
        self._learning_rate = float(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step, last = trainer.global_step, trainer.global_step >= self.steps
        self._tokens += batch.tokens
        if step % self.every == 0 or last:
            self._record(step, outputs["loss"])
        now = time.perf_counter()
        if last or now - self._progress_at >= PROGRESS_SECONDS:
            self._progress_at = now
            self.recorder.progress(step, self.steps, "step")

    def _record(self, step: int, loss: torch.Tensor) -> None:
        value = loss.item()  # waits for the device, so that the time below is the step's
        now = time.perf_counter()
        values = {
            "train/loss": value,
            "train/learning_rate": self._learning_rate,
            "train/tokens_per_second": self._tokens / max(now - self._since, 1e-9),
        }
        self.recorder.metrics({name: value for name, value in values.items() if math.isfinite(value)}, step)
        self._since, self._tokens = now, 0


class TokenizingReport:
    """Tells of texts that are tokenized for the first time: a bar where stderr is a terminal, and an event for a file
    that takes more than ``PATIENCE`` seconds."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._file: Path | None = None
        self._bar: tqdm | None = None
        self._began: float | None = None

    def __call__(self, file: Path, done: int, total: int) -> None:
        if file != self._file:
            self._file, self._began = file, time.monotonic()
            if sys.stderr.isatty():
                self._bar = tqdm(total=total, desc=f"tokenizing {file.name}", unit="B", unit_scale=True, leave=False)
        if self._began is not None and time.monotonic() - self._began > PATIENCE:
            self._began = None
            self.recorder.event("tokenizing", file=str(file), bytes=total)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
            if done >= total:
                self._bar.close()
                self._bar = None


class ProgressBar(Callback):
    """A bar on stderr with the steps, the time left and the loss; only where stderr is a terminal."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._bar: tqdm | None = None
        self._shown_at = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if sys.stderr.isatty():
            self._bar = tqdm(
                total=self.steps,
                initial=trainer.global_step,
                desc="training",
                unit="step",
                file=sys.stderr,
                dynamic_ncols=True,
            )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._bar is None:
            return
        if time.perf_counter() - self._shown_at >= PROGRESS_SECONDS or trainer.global_step >= self.steps:
            self._shown_at = time.perf_counter()
            self._bar.set_postfix(loss=f"{outputs['loss'].item():.4f}", refresh=False)
        self._bar.update()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
