"""What a training tells its recorder, and its user."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from tqdm import tqdm

from lmk_core.recording import Recorder
from lmk_train.loss.agreement import world
from lmk_train.modules.divergence import DivergenceError
from lmk_train.modules.faults import BatchFault
from lmk_train.modules.stepping import SteppedModule, StepReport
from lmk_train.throughput import peak_flops

PATIENCE = 5.0
"""Seconds after which it is worth a record that a file is still being tokenized."""

PROGRESS_SECONDS = 0.5
"""Least time between two reports of progress: a step may take a millisecond, a record is a file."""


class MetricsReporter(Callback):
    """Records a step in ``every``, the progress of each, and what happened on the way.

    All values are of all processes together. ``train/loss``, ``train/learning_rate`` and ``train/gradient_norm``
    (before it is clipped) are those of the step itself, not means since the last record: a resumed training records
    the same curve. Of the time since the last record, all that it went into included, are

    - ``train/tokens_per_second``, without padding,
    - ``train/padding_share``, of all tokens that go through the encoder: 0 where texts are packed. Where the attention
      of packed texts is computed in rectangles, as on a CPU, ``train/attention_padding_share`` is that of its queries,
    - ``train/teraflops_per_second`` of each device, as `lmk_train.throughput.ModelFlops` counts them, and in bfloat16
      on a GPU that `lmk_train.throughput.peak_flops` knows ``train/mfu``, their share of what it could,
    - where equal texts are masked, ``train/masked_duplicates``: pairs of a query and a text, as a mean of steps.

    ``train/chunk_tokens`` is there where batches are computed in chunks.

    Events are ``padded`` and ``packing_changed`` (see `Packing`), ``chunk_halved``, and ``not_finite`` or ``diverged``
    with the step and all its rows when such a training is stopped.
    """

    def __init__(self, recorder: Recorder, every: int, steps: int) -> None:
        self.recorder, self.every, self.steps = recorder, every, steps
        self._learning_rate = 0.0
        self._reports: list[StepReport] = []
        self._since = self._progress_at = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        # Read here: at the batch's end the schedule has already moved on.
        self._learning_rate = float(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, SteppedModule)
        step, last = trainer.global_step, trainer.global_step >= self.steps
        if pl_module.report is not None:
            self._reports.append(pl_module.report)
        self._tell(pl_module)
        if step % self.every == 0 or last:
            self._record(step, pl_module)
        now = time.perf_counter()
        if last or now - self._progress_at >= PROGRESS_SECONDS:
            self._progress_at = now
            self.recorder.progress(step, self.steps, "step")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if isinstance(pl_module, SteppedModule):
            self._tell(pl_module)
        if isinstance(exception, BatchFault) and exception.step:
            kind = "diverged" if isinstance(exception, DivergenceError) else "not_finite"
            self.recorder.event(kind, step=exception.step, where=list(exception.where), error=str(exception))

    def _record(self, step: int, module: SteppedModule) -> None:
        now, reports, last = time.perf_counter(), self._reports, self._reports[-1]
        tokens, seconds = sum(report.tokens for report in reports), max(now - self._since, 1e-9)
        values = {
            "train/loss": last.loss,
            "train/learning_rate": self._learning_rate,
            "train/gradient_norm": last.gradient_norm,
            "train/tokens_per_second": tokens / seconds,
            "train/padding_share": 1 - tokens / max(1, sum(report.padded for report in reports)),
            **_utilization(sum(report.flops for report in reports) / seconds, module),
        }
        if any(report.attention_padding for report in reports):
            shares = [report.attention_padding * report.tokens for report in reports]
            values["train/attention_padding_share"] = sum(shares) / max(1, tokens)
        values |= module.own_metrics(reports)
        if module.engine.chunk_tokens is not None:
            values["train/chunk_tokens"] = module.engine.chunk_tokens
        self.recorder.metrics(values, step)
        self._since, self._reports = now, []

    def _tell(self, module: SteppedModule) -> None:
        events, module.events = module.events, []
        for event in events:
            self.recorder.event(**event)


def _utilization(flops_per_second: float, module: SteppedModule) -> dict[str, float]:
    """Of each device."""
    own = flops_per_second / world()[1]
    values = {"train/teraflops_per_second": own / 1e12}
    if module.device.type == "cuda" and module.config.precision == "bf16":
        peak = peak_flops(torch.cuda.get_device_name(module.device))
        values |= {} if peak is None else {"train/mfu": own / peak}
    return values


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
