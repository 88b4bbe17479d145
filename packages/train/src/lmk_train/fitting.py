"""What each rank of a training does: one process alone is the first rank of one."""

from __future__ import annotations

import logging
import random
import shutil
import signal
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.plugins.environments import LightningEnvironment

from lmk_core import Embedder
from lmk_core.encoders import load_language_head
from lmk_core.recording import NullRecorder, Recorder
from lmk_train.callbacks.checkpoint_files import CheckpointFiles, remove_drafts
from lmk_train.callbacks.checkpoints import Checkpoints, find_checkpoint
from lmk_train.callbacks.preemption import Preemption
from lmk_train.callbacks.recording import MetricsReporter, ProgressBar, TokenizingReport
from lmk_train.callbacks.several import MeetAfterValidation
from lmk_train.callbacks.validation import RetrievalValidation
from lmk_train.config import AnyConfig, PretrainConfig, TrainConfig
from lmk_train.config.card import for_card
from lmk_train.data.module import ContrastiveData
from lmk_train.data.reading import Rows
from lmk_train.finished import is_finished, mark_finished, remove_mark
from lmk_train.modules.contrastive import ContrastiveModule
from lmk_train.modules.finite import check_weights
from lmk_train.modules.stepping import SteppedModule
from lmk_train.pretraining.data import PretrainingData
from lmk_train.pretraining.module import PretrainingModule
from lmk_train.pretraining.weights import note_weights, started_from
from lmk_train.ranks.group import Ranks, RanksEnvironment, UnwrappedStrategy
from lmk_train.retromae import RetroMae

_PRECISION = {"fp32": "32-true", "bf16": "bf16-mixed"}


@dataclass
class Work:
    """What is trained, made of a configuration."""

    embedder: Embedder
    """Shares its weights with the module, and is saved at the end."""
    data: ContrastiveData | PretrainingData
    module: SteppedModule
    validation: RetrievalValidation | None = None
    told: dict[str, Any] = field(default_factory=dict)
    """What the event ``start`` says beside what it always says."""


def on_gpu(config: AnyConfig) -> bool:
    """Whether the training runs on CUDA devices."""
    return config.runtime.accelerator in {"auto", "gpu", "cuda"} and torch.cuda.is_available()


def fit(config: AnyConfig, folder: Path, recorder: Recorder, ranks: Ranks) -> None:
    """Trains as one of ``ranks``; returns when the model is whole and marked, on all of them.

    The first rank alone reports to ``recorder``, validates (the others wait), and writes.

    Raises:
        Exception: As :func:`lmk_train.train`.
    """
    recorder = recorder if ranks.first else NullRecorder()
    if ranks.share(is_finished(config, folder)):
        if ranks.first:
            remove_checkpoints(folder)  # left there by a run that was killed behind its mark
            recorder.event("already_trained", steps=config.optim.steps)
        return
    if config.runtime.threads is not None:
        torch.set_num_threads(config.runtime.threads)
    with Preemption(recorder, ranks) as preemption:
        _fit(config, folder, recorder, ranks, preemption)


def _fit(config: AnyConfig, folder: Path, recorder: Recorder, ranks: Ranks, preemption: Preemption) -> None:
    began = time.monotonic()
    seed_everything(config.seed)
    if isinstance(config, TrainConfig):
        work = fine_tuning(config, recorder, ranks)
    else:
        work = pre_training(config, recorder, ranks)
    _record_start(config, work, recorder, ranks)
    _seed_dropout(config.seed, ranks)
    _run(config, folder, recorder, ranks, work, preemption)
    preemption.finish()
    if ranks.first:
        _save(config, folder, work.embedder)
        recorder.event("finished", steps=config.optim.steps, seconds=round(time.monotonic() - began, 3))
    ranks.meet()


def fine_tuning(config: TrainConfig, recorder: Recorder, ranks: Ranks) -> Work:
    """What a fine-tune needs, before its first step."""
    embedder, told = started_from(config)
    if told and ranks.first:
        recorder.event("initialized", **told)
    place, report = ranks.place, TokenizingReport(recorder)
    with ranks.in_turn():
        data = ContrastiveData(config, embedder.tokenizer, rank=place.rank, world_size=place.size, report=report)
    validation = _validation(config, embedder, recorder) if ranks.first else None
    return Work(embedder, data, ContrastiveModule(embedder.module, embedder.tokenizer, config), validation)


def pre_training(config: PretrainConfig, recorder: Recorder, ranks: Ranks) -> Work:
    """What a pre-training needs, before its first step."""
    embedder = Embedder.from_pretrained(
        config.model.path,
        pooling=config.pooling,
        max_length=config.data.max_length,
        device="cpu",
        revision=config.model.revision,
    )
    encoder = embedder.module.encoder
    head, is_loaded = load_language_head(config.model.path, encoder, revision=config.model.revision)
    place, report = ranks.place, TokenizingReport(recorder)
    with ranks.in_turn():
        data = PretrainingData(config, embedder.tokenizer, rank=place.rank, world_size=place.size, report=report)
    module = PretrainingModule(RetroMae(embedder.module, head), config)
    return Work(embedder, data, module, told={"head": "of the checkpoint" if is_loaded else "new"})


def _save(config: AnyConfig, folder: Path, embedder: Embedder) -> None:
    embedder.module.eval()
    check_weights(embedder.module, config.optim.steps, config.optim)
    remove_mark(folder)
    embedder.save_pretrained(folder / "model", training=for_card(config))
    if isinstance(config, PretrainConfig):
        note_weights(embedder.module, folder)
    mark_finished(config, folder)
    remove_checkpoints(folder)


def _run(config: AnyConfig, folder: Path, recorder: Recorder, ranks: Ranks, work: Work, preemption: Preemption) -> None:
    path = folder / "checkpoints" / "last.ckpt"
    steps, rows, validation = config.optim.steps, work.data.rows, work.validation
    preemption.checkpoints = Checkpoints(config, path, rows, ranks)
    callbacks: list[Callback] = [
        MetricsReporter(recorder, config.runtime.log_every, steps),
        *([ProgressBar(steps)] if ranks.first else []),
        *([] if validation is None else [validation]),
        *([MeetAfterValidation(config, preemption.meet)] if isinstance(config, TrainConfig) else []),
        # Last, so that a checkpoint means that everything else of its step was done.
        preemption.checkpoints,
        preemption,
    ]
    with _quiet_lightning():
        trainer = make_trainer(config, folder, callbacks, ranks)
        if steps:
            resume = _checkpoint(config, path, rows, recorder, ranks)
            _run_steps(trainer, work.module, work.data, resume)
        if validation is not None and validation.measured_at != steps:
            # No step was taken: 0 were asked, or a checkpoint held the last one.
            validation.run_as_trained(trainer, steps)


def _checkpoint(config: AnyConfig, path: Path, rows: int, recorder: Recorder, ranks: Ranks) -> Path | None:
    """What to resume from: the first rank looks, so that all see the same."""
    found = None
    if ranks.first:
        remove_drafts(path)
        found = find_checkpoint(config, path, rows, recorder, processes=ranks.place.size)
    return ranks.share(found)


def _run_steps(trainer: Trainer, module: SteppedModule, data: LightningDataModule, resume: Path | None) -> None:
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
    except SystemExit as stop:
        if not isinstance(stop.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, interrupt)  # Lightning ignores it while it ends
        raise KeyboardInterrupt from None


def remove_checkpoints(folder: Path) -> None:
    """When the model is whole."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def make_trainer(config: AnyConfig, folder: Path, callbacks: list[Callback], ranks: Ranks | None = None) -> Trainer:
    """A trainer that logs nothing, saves nothing and takes no scheduler's signals: the callbacks do what is needed."""
    ranks = Ranks() if ranks is None else ranks
    place = ranks.place
    trainer = Trainer(
        accelerator=config.runtime.accelerator,
        devices=place.devices,
        num_nodes=place.nodes,
        strategy=UnwrappedStrategy() if ranks.several else "auto",
        precision=_PRECISION[config.precision],  # ty: ignore[invalid-argument-type]
        max_steps=config.optim.steps,
        max_epochs=1,  # the order of batches is endless and ends at the last step; see BatchOrder
        callbacks=callbacks,
        # Not there, and not made: in a job of SLURM, Lightning goes on from any `hpc_ckpt_*.ckpt` that it finds in it.
        default_root_dir=folder / "checkpoints" / "lightning",
        # Named, because a detected SLURM environment requeues jobs on its own and loses what was trained.
        plugins=[RanksEnvironment(place) if ranks.several else LightningEnvironment(), CheckpointFiles()],
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    # Its own handler of SIGTERM runs a collective wherever it happens to arrive, and ends with exit code 0; so it goes,
    # with the exchange that it needs at every step. See Preemption.
    trainer._signal_connector.register_signal_handlers = _nothing
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = _nothing
    return trainer


def _nothing() -> None:
    """Instead of what Lightning would do."""


def seed_everything(seed: int) -> None:
    """Seeds torch, numpy and Python: new weights and dropout. Data is drawn from its own keys."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _seed_dropout(seed: int, ranks: Ranks) -> None:
    """Each rank its own numbers, once the new weights are made; those of the first are those of one process."""
    if not ranks.first:
        torch.manual_seed(int(np.random.SeedSequence([seed, ranks.place.rank]).generate_state(1, np.uint64)[0] >> 1))


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
        bf16=config.precision == "bf16",
    )


def _record_start(config: AnyConfig, work: Work, recorder: Recorder, ranks: Ranks) -> None:
    accelerator = config.runtime.accelerator
    cpu = "cpu" if accelerator in {"auto", "cpu"} else accelerator
    recorder.event(
        "start",
        device=torch.cuda.get_device_name() if on_gpu(config) else cpu,
        torch=str(torch.__version__),
        hostname=ranks.hosts[0],
        processes=ranks.place.size,
        devices_per_node=ranks.place.devices,
        nodes=ranks.nodes,
        parameters=sum(parameter.numel() for parameter in work.embedder.module.parameters()),
        **work.told,
        **work.data.summary(),
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
            ".*overridden `transfer_batch_to_device`.*",
        ):
            warnings.filterwarnings("ignore", message=message)
        try:
            for logger in loggers:
                logger.setLevel(logging.WARNING)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
