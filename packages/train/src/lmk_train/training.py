"""One training from a configuration to a saved model."""

from __future__ import annotations

from pathlib import Path

import torch

from lmk_core.recording import NullRecorder, Recorder
from lmk_train.config import AnyConfig, PretrainConfig, TrainConfig
from lmk_train.finished import is_finished, refuse_other
from lmk_train.fitting import fit, on_gpu
from lmk_train.pretraining.weights import refuse_unfinished
from lmk_train.ranks.failures import RankFailedError, RankFailure, describe
from lmk_train.ranks.group import Ranks, formed
from lmk_train.ranks.launch import launch
from lmk_train.ranks.line import FirstEnd, OtherEnd, joined_step

_CAUSE_SECONDS = 1.0
"""How long the first rank waits, when it fails, for another to say that it failed before."""


def train(
    config: TrainConfig, folder: Path, recorder: Recorder | None = None, step: FirstEnd | OtherEnd | None = None
) -> Path:
    """Fine-tunes an encoder and saves it.

    An interrupted training resumes from ``folder/checkpoints/last.ckpt`` and ends with the weights of an undisturbed
    one. The same configuration trains the same weights on one machine with the same libraries, the same
    ``runtime.threads`` and the same number of processes; nearly the same ones on a GPU, since some of its kernels add
    in no fixed order, and on another number of processes, but for dropout, which is another draw there.

    With ``runtime.devices`` of more than one it starts that many processes here, the ranks, and returns when all have
    ended. Called by several tasks of one srun step, each task is a rank: ``devices`` of them on each of
    ``runtime.nodes`` nodes, and ``folder`` is on a disk that all nodes see. Data is drawn for the whole step, however
    many ranks share it.

    When ``folder/model`` is whole, ``folder/TRAINED.json`` is written with the configuration's digest, and only then
    are the checkpoints removed: whenever it is killed, what was trained is in a checkpoint or in a marked model. A
    model that the same configuration has marked is returned at once, without a look at the data. Of files the digest
    holds the names, neither the folders nor the content; the runtime and the validation file are no part of it. A
    model of another configuration is never replaced.

    Args:
        config: The training; its paths are real paths or names on the hub.
        folder: Where checkpoints and the model go; one folder for one training.
        recorder: Hears of events, metrics and progress, from the first rank alone.
        step: This task's end of the line of its srun step, from :func:`lmk_train.ranks.joined_step`, for a caller that
            has joined it already.

    Returns:
        ``folder/model``, which :meth:`lmk_core.Embedder.from_pretrained` opens.

    Raises:
        DataError: A data file is faulty.
        NonFiniteError: The loss, a gradient or a weight became NaN or infinite; such weights are never saved.
        DivergenceError: The loss rose far above what it had been; see ``config.runtime.divergence``.
        CheckpointMismatchError: ``folder`` holds a checkpoint of another configuration.
        OtherModelError: ``folder`` holds the finished model of another configuration.
        OSError: A checkpoint is there but the disk does not give it; or the disk takes none
            (:class:`lmk_train.callbacks.CheckpointNotWrittenError`).
        Preempted: It was told to stop by SIGUSR2 or SIGTERM, has saved, and nobody had a handler for that. What an
            earlier handler raises is raised instead.
        RankFailedError: A rank was killed, or failed on another node; the message names it. What a rank of this node
            raised is raised as it is, with a note.
        ValueError: ``config.runtime`` does not fit the machine, the srun step or the batch; or ``config.init`` is
            no folder of a finished pre-training.
    """
    if config.init is not None and not is_finished(config, Path(folder)):
        refuse_unfinished(config.init)
    return _run(config, folder, recorder, step)


def pretrain(
    config: PretrainConfig, folder: Path, recorder: Recorder | None = None, step: FirstEnd | OtherEnd | None = None
) -> Path:
    """Pre-trains an encoder by RetroMAE and saves it, without the head and the decoder that it was trained with.

    Everything that :func:`train` says of checkpoints, resuming, marks, processes and signals holds here too. The model
    is an embedding model, which a fine-tune starts from with ``init: FOLDER``; ``folder/WEIGHTS.json`` has the digest
    of each of its weights, so that the fine-tune can tell that it has them all.

    Args:
        config: The pre-training; its paths are real paths or names on the hub.
        folder: Where checkpoints and the model go; one folder for one pre-training.
        recorder: Hears of events, metrics (also ``train/encoder_loss`` and ``train/decoder_loss``) and progress.
        step: As of :func:`train`.

    Returns:
        ``folder/model``, which :meth:`lmk_core.Embedder.from_pretrained` opens.

    Raises:
        Exception: As :func:`train`.
        ValueError: Also if the tokenizer has no MASK or no CLS, or is written in Python.
    """
    return _run(config, folder, recorder, step)


def _run(config: AnyConfig, folder: Path, recorder: Recorder | None, step: FirstEnd | OtherEnd | None) -> Path:
    recorder = NullRecorder() if recorder is None else recorder
    folder = Path(folder)
    refuse_other(config, folder)
    if step is not None:
        _run_in_step(config, folder, recorder, step)
        return folder / "model"
    with joined_step() as joined:
        if joined is not None:
            _run_in_step(config, folder, recorder, joined)
            return folder / "model"
    _check_alone(config)
    if config.runtime.devices == 1 or is_finished(config, folder):
        fit(config, folder, recorder, Ranks())
    else:
        launch(config, folder, recorder)
    return folder / "model"


def _run_in_step(config: AnyConfig, folder: Path, recorder: Recorder, step: FirstEnd | OtherEnd) -> None:
    """Trains as one task of an srun step.

    Raises:
        RankFailedError: Another rank failed; only the first rank knows which.
    """
    _check_step(config, step)
    if isinstance(step, OtherEnd):
        store = torch.distributed.TCPStore(step.address, step.told()["store"], is_master=False)
        with formed(step.place, store, cuda=on_gpu(config)) as ranks:
            fit(config, folder, recorder, ranks)
        return
    step.listen(lambda failure: recorder.event("rank_failed", **failure.event()))
    try:
        step.everyone()
        store = torch.distributed.TCPStore(step.place.address, 0, is_master=True, wait_for_workers=False)
        step.tell(store=store.port)
        with formed(step.place, store, cuda=on_gpu(config)) as ranks:
            fit(config, folder, recorder, ranks)
    except Exception as error:
        cause = _cause_elsewhere(error, step)
        if cause is None:
            raise
        raise RankFailedError(f"{cause}") from error


def _cause_elsewhere(error: Exception, step: FirstEnd) -> RankFailure | None:
    """The failure of another rank that the first one's ``error`` follows from.

    Its own error may only be that another is gone. But what all ranks raise together, such as a loss that is not
    finite, is the first one's own, of which a caller needs the type.
    """
    cause = step.failure(_CAUSE_SECONDS)
    if cause is None or cause.echo:
        return None
    # A plain RuntimeError may be anything, also a lost peer that nobody knows to tell.
    same = cause.kind == type(error).__name__ and type(error) is not RuntimeError
    return None if same and not describe(error)["echo"] else cause


def _check_alone(config: AnyConfig) -> None:
    runtime = config.runtime
    if runtime.nodes != 1:
        raise ValueError(
            f"runtime.nodes is {runtime.nodes}, and this is one process on one node; valid: 1, or start "
            f"{runtime.nodes * runtime.devices} tasks with srun --nodes {runtime.nodes} "
            f"--ntasks-per-node {runtime.devices}"
        )
    _check_batch(config, runtime.devices)
    if runtime.devices > 1 and on_gpu(config) and runtime.devices > torch.cuda.device_count():
        raise ValueError(f"runtime.devices is {runtime.devices}; this machine has {torch.cuda.device_count()} GPUs")


def _check_step(config: AnyConfig, step: FirstEnd | OtherEnd) -> None:
    place, runtime = step.place, config.runtime
    for key, wanted, found, what in (
        ("nodes", runtime.nodes, place.nodes, "nodes"),
        ("devices", runtime.devices, place.devices, "tasks on each node"),
    ):
        if wanted != found:
            raise ValueError(f"runtime.{key} is {wanted}, and srun has started this step with {found} {what}")
    _check_batch(config, place.size)


def _check_batch(config: AnyConfig, size: int) -> None:
    if config.optim.batch_size < size:
        raise ValueError(
            f"optim.batch_size is {config.optim.batch_size}, and there are {size} processes (runtime.devices x "
            f"runtime.nodes); valid: at least one row for each"
        )
