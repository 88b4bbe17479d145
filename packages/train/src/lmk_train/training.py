"""One training from a configuration to a saved model."""

from __future__ import annotations

import logging
import random
import shutil
import socket
import sys
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.plugins.environments import LightningEnvironment
from lightning.pytorch.utilities.exceptions import SIGTERMException

from lmk_core import Embedder
from lmk_core.recording import NullRecorder, Recorder
from lmk_train.callbacks.checkpoints import Checkpoints, find_checkpoint
from lmk_train.callbacks.recording import MetricsReporter, ProgressBar, TokenizingReport
from lmk_train.callbacks.validation import RetrievalValidation
from lmk_train.config import TrainConfig
from lmk_train.config.card import for_card
from lmk_train.data.module import ContrastiveData
from lmk_train.data.reading import Rows
from lmk_train.finished import is_finished, mark_finished, remove_mark
from lmk_train.modules.contrastive import ContrastiveModule
from lmk_train.modules.finite import check_weights

_PRECISION = {"fp32": "32-true", "bf16": "bf16-mixed"}


def train(config: TrainConfig, folder: Path, recorder: Recorder | None = None) -> Path:
    """Fine-tunes an encoder and saves it.

    An interrupted training resumes from ``folder/checkpoints/last.ckpt`` and ends with the weights of an undisturbed
    one. The same configuration trains the same weights on one machine with the same libraries and the same
    ``runtime.threads``; on a GPU nearly the same ones, since some of its kernels add in no fixed order.

    When ``folder/model`` is whole, ``folder/TRAINED.json`` is written with the configuration's digest, and only then
    are the checkpoints removed: whenever it is killed, what was trained is in a checkpoint or in a marked model. A
    model that the same configuration has marked is returned at once, without a look at the data. Of files the digest
    holds the names, neither the folders nor the content; the runtime and the validation file are no part of it. A model
    of another configuration is replaced.

    Args:
        config: The training; its paths are real paths or names on the hub.
        folder: Where checkpoints and the model go; one folder for one training.
        recorder: Hears of events, metrics and progress.

    Returns:
        ``folder/model``, which :meth:`lmk_core.Embedder.from_pretrained` opens.

    Raises:
        DataError: A data file is faulty.
        NonFiniteError: The loss, a gradient or a weight became NaN or infinite; such weights are never saved.
        DivergenceError: The loss rose far above what it had been; see ``config.runtime.divergence``.
        CheckpointMismatchError: ``folder`` holds a checkpoint of another configuration.
        OSError: A checkpoint is there but the disk does not give it.
        ValueError: ``config.runtime.devices`` is more than 1, or ``config.init`` names a pre-training: neither is
            supported yet.
    """
    recorder = NullRecorder() if recorder is None else recorder
    folder = Path(folder)
    if config.runtime.devices != 1:
        raise ValueError(f"runtime.devices is {config.runtime.devices}; one process is supported so far, valid: 1")
    if config.init is not None:
        raise ValueError(f"init is {config.init!r}; pre-training is not there yet, valid: null")
    if is_finished(config, folder):
        _remove_checkpoints(folder)  # left there by a run that was killed behind its mark
        recorder.event("already_trained", steps=config.optim.steps)
        return folder / "model"
    if config.runtime.threads is not None:
        torch.set_num_threads(config.runtime.threads)
    began = time.monotonic()
    seed_everything(config.seed)
    embedder = Embedder.from_pretrained(
        config.model.path,
        pooling=config.pooling,
        max_length=config.data.passage_max_length,
        device="cpu",  # Lightning moves it
        revision=config.model.revision,
    )
    data = ContrastiveData(config, embedder.tokenizer, report=TokenizingReport(recorder))
    validation = _validation(config, embedder, recorder)
    _record_start(config, embedder, data, recorder)
    _fit(config, folder, recorder, embedder, data, validation)
    embedder.module.eval()
    check_weights(embedder.module, config.optim.steps, config.optim)
    remove_mark(folder)
    embedder.save_pretrained(folder / "model", training=for_card(config))
    mark_finished(config, folder)
    _remove_checkpoints(folder)
    recorder.event("finished", steps=config.optim.steps, seconds=round(time.monotonic() - began, 3))
    return folder / "model"


def _fit(
    config: TrainConfig,
    folder: Path,
    recorder: Recorder,
    embedder: Embedder,
    data: ContrastiveData,
    validation: RetrievalValidation | None,
) -> None:
    path = folder / "checkpoints" / "last.ckpt"
    steps, rows = config.optim.steps, data.rows
    callbacks: list[Callback] = [
        MetricsReporter(recorder, config.runtime.log_every, steps),
        ProgressBar(steps),
        *([] if validation is None else [validation]),
        # Last, so that a checkpoint means that everything else of its step was done.
        Checkpoints(config, path, rows),
    ]
    with _quiet_lightning():
        trainer = make_trainer(config, folder, callbacks)
        if steps:
            resume = find_checkpoint(config, path, rows, recorder)
            _run_steps(trainer, ContrastiveModule(embedder.module, embedder.tokenizer, config), data, resume)
        if validation is not None and validation.measured_at != steps:
            # No step was taken: 0 were asked, or a checkpoint held the last one.
            validation.run_as_trained(trainer, steps)


def _run_steps(trainer: Trainer, module: ContrastiveModule, data: ContrastiveData, resume: Path | None) -> None:
    try:
        trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
    except SIGTERMException:
        # Lightning's own has no exit code, and so a supervisor would see a success.
        sys.exit(128 + 15)
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _remove_checkpoints(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def make_trainer(config: TrainConfig, folder: Path, callbacks: list[Callback]) -> Trainer:
    """A trainer that logs nothing, saves nothing and takes no scheduler's signals: the callbacks do what is needed."""
    return Trainer(
        accelerator=config.runtime.accelerator,
        devices=config.runtime.devices,
        precision=_PRECISION[config.precision],  # ty: ignore[invalid-argument-type]
        max_steps=config.optim.steps,
        max_epochs=1,  # the order of batches is endless and ends at the last step; see BatchOrder
        callbacks=callbacks,
        default_root_dir=folder,
        # Named, because a detected SLURM environment requeues jobs on its own and loses what was trained.
        plugins=[LightningEnvironment()],
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )


def seed_everything(seed: int) -> None:
    """Seeds torch, numpy and Python: new weights and dropout. Data is drawn from its own keys."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _validation(config: TrainConfig, embedder: Embedder, recorder: Recorder) -> RetrievalValidation | None:
    if config.data.validation is None:
        return None
    return RetrievalValidation(
        embedder,
        Rows([config.data.validation], prompt=config.data.prompt),
        recorder,
        every=config.runtime.validate_every,
        query_max_length=config.data.query_max_length,
        passage_max_length=config.data.passage_max_length,
    )


def _record_start(config: TrainConfig, embedder: Embedder, data: ContrastiveData, recorder: Recorder) -> None:
    accelerator = config.runtime.accelerator
    cuda = accelerator in {"auto", "gpu", "cuda"} and torch.cuda.is_available()
    recorder.event(
        "start",
        device=torch.cuda.get_device_name() if cuda else "cpu" if accelerator in {"auto", "cpu"} else accelerator,
        torch=str(torch.__version__),
        hostname=socket.gethostname(),
        parameters=sum(parameter.numel() for parameter in embedder.module.parameters()),
        **data.summary(),
        steps=config.optim.steps,
    )


@contextmanager
def _quiet_lightning() -> Generator[None]:
    """Leaves out Lightning's hints and its warnings on choices that were made on purpose."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for message in (
            ".*does not have many workers.*",
            ".*your dataloader is not resumable.*",
            ".*available but not used.*",
            ".*`srun` command is available.*",
            ".*LeafSpec.*deprecated.*",
        ):
            warnings.filterwarnings("ignore", message=message)
        try:
            for logger in loggers:
                logger.setLevel(logging.WARNING)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
