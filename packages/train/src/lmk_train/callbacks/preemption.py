"""What a training does when it is told to stop: it saves, and hands the signal on.

Lightning and submitit together lose work here: one's handler keeps the other from saving, or the ranks wait for each
other for ever. So neither is asked: a signal becomes a flag, the ranks learn of it with the numbers of the step that
they add up anyway, all save that step, and only then is the signal handed to whoever had it before, which queues the
job again once.
"""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

import contextlib
import os
import signal
import time
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lmk_core.recording import Recorder
from lmk_train.callbacks.checkpoint_files import CheckpointNotWrittenError
from lmk_train.callbacks.checkpoints import Checkpoints
from lmk_train.modules.stepping import SteppedModule
from lmk_train.ranks.failures import describe
from lmk_train.ranks.signals import SIGNALS, Handlers, Preempted, in_order

if TYPE_CHECKING:
    from lmk_train.ranks.group import Ranks


class Preemption(Callback):
    """Takes SIGUSR2 and SIGTERM while it is entered.

    Before the first step there is nothing to save, and the first rank hands a signal on at once. From then on it waits
    for the end of the step, or of the one after it where ranks have to agree; a validation is finished first. Behind
    the last step it is too late to stop: the model is saved, and the training returns as if there had been no signal.

    The first rank hands on. Where the handler of before raises (submitit's for SIGUSR2 queues the job again and exits),
    or there is none, all ranks end. Where it returns, as submitit's for SIGTERM does, they go on from what they have:
    a scheduler that sends it has decided already what becomes of the job.

    Args:
        recorder: Hears ``preempted`` with the ``step`` that is saved, the ``signal``'s name and the ``seconds`` that
            saving took, before anything is handed on; where the disk took no checkpoint also with the ``error``, and
            the step is that of the checkpoint before.
        ranks: All of the training's.
    """

    def __init__(self, recorder: Recorder, ranks: Ranks) -> None:
        self.recorder, self.ranks = recorder, ranks
        self.checkpoints: Checkpoints | None = None
        """Where to save."""
        self._handlers = Handlers(self._receive)
        self._asked: set[int] = set()
        self._at_once, self._handing = True, 0
        self._told: tuple[int, ...] = ()
        self._process = os.getpid()

    def __enter__(self) -> Preemption:
        self._handlers.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handlers.restore()
        if self._handing and self._at_once and error is not None:
            self._record(self._handing, 0.0)
        # The first rank has left before the first step.
        if self._asked and isinstance(error, Exception) and not self.ranks.first and describe(error)["echo"]:
            raise Preempted(in_order(self._asked)[0]) from error

    def finish(self) -> None:
        """From here on nothing stops the training: its work is done, and only has to be written."""
        self._at_once = False

    def meet(self) -> None:
        """Waits for the first rank, and learns what it has been asked meanwhile."""
        self._told = self.ranks.share(tuple(self._asked))

    def asked(self) -> tuple[int, ...]:
        """Of each of ``SIGNALS``, whether this process has been sent it and has not obeyed yet."""
        return tuple(int(number in self._asked) for number in SIGNALS)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, SteppedModule)
        pl_module.signals = self.asked

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._at_once = False

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, SteppedModule)
        numbers = self._agreed(pl_module)
        self._told = ()
        if numbers and trainer.global_step < trainer.max_steps:
            self._stop(trainer, numbers)

    def _agreed(self, module: SteppedModule) -> set[int]:
        """What all ranks know that one of them was sent."""
        if not self.ranks.several:
            return set(self._asked)
        counts = () if module.report is None else module.report.signals
        return {*self._told, *(number for number, count in zip(SIGNALS, counts, strict=False) if count)}

    def _stop(self, trainer: Trainer, numbers: set[int]) -> None:
        assert self.checkpoints is not None
        began = time.monotonic()
        said = {}
        try:
            self.checkpoints.save(trainer)
        except CheckpointNotWrittenError as error:
            # The job has to leave all the same: it goes on from the one before, and the next one stops it.
            said["error"] = str(error)
        if self.ranks.first:
            numbers |= self._asked  # also what came meanwhile: one request, and handed on once
        order = in_order(numbers)
        self._record(order[0], time.monotonic() - began, **said)
        self._hand_on(order)
        self._asked -= numbers

    def _hand_on(self, numbers: list[int]) -> None:
        """On the first rank first: the others' ends must not be taken for failures while it queues the job again."""
        if self.ranks.first:
            try:
                for number in numbers:
                    self._handing = number
                    self._handlers.hand_on(number)
            except BaseException:
                with contextlib.suppress(RuntimeError):  # a rank may be gone already
                    self.ranks.share(True)
                raise
            self._handing = 0
            self.ranks.share(False)
            return
        try:
            leaves = self.ranks.share(True)
        except RuntimeError:  # its handler has ended it on the spot
            leaves = True
        if leaves:
            raise Preempted(numbers[0])

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # a data worker that was forked a moment ago
        self._asked.add(number)
        # Elsewhere than on the first rank it waits, so that no rank is left alone in the first step.
        if self._at_once and self.ranks.first and not self._handing:
            self._handing = number
            self._handlers.hand_on(number, frame)
            self._handing = 0
            self._asked.discard(number)

    def _record(self, number: int, seconds: float, **said: str) -> None:
        step = 0 if self.checkpoints is None else self.checkpoints.saved_at
        name = signal.Signals(number).name
        self.recorder.event("preempted", step=step, signal=name, seconds=round(seconds, 3), **said)
