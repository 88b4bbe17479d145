"""Several processes encode one corpus, each its share of the shards on a GPU of its own, with the model loaded once."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from lmk_core.recording import Recorder
from lmk_eval.evaluation.settings import Reading, Settings
from lmk_eval.suites import Task


@dataclass(frozen=True)
class Job:
    """What a process needs to encode the same corpora: plain values, so that it can start from nothing."""

    model: str | None
    """Its folder or name; None where it is given as an object, which other processes can't have."""
    name: str
    tasks: tuple[Task, ...]
    readings: tuple[Reading, ...]
    folders: tuple[str, ...]
    max_length: int
    batch_tokens: int | None
    settings: Settings


@dataclass(frozen=True)
class Corpus:
    """Which corpus of a job: numbers of the task, of its part and of the reading; split and subset."""

    task: int
    part: int
    reading: int
    split: str
    subset: str


class Workers:
    """The processes beside this one. They start when they are first needed.

    A process that fails costs nothing but time: what it did not encode, this process does.

    Args:
        job: what they work on.
        processes: how many there are with this one; each takes the GPU of its number, where there are as many.
        recorder: gets a ``worker_failed`` event for each that fails.
    """

    def __init__(self, job: Job, processes: int, recorder: Recorder) -> None:
        self.job = job
        self.processes = processes
        self.recorder = recorder
        self._running: list[tuple[Any, Connection]] = []
        self._failed = False

    def encode(self, corpus: Corpus, own: Callable[[tuple[int, int]], None]) -> None:
        """Encode a corpus together: ``own`` does this process's share, and the others theirs meanwhile."""
        if not self._running and not self._failed:
            self._start()
        if not self._running:
            return
        for _, pipe in self._running:
            _told(pipe, corpus)
        own((0, self.processes))
        for number, (process, pipe) in enumerate(self._running, start=1):
            try:
                error = pipe.recv()
            except EOFError:
                process.join()
                error = f"exit code {process.exitcode}"
            if error:
                self._failed = True
                self.recorder.event("worker_failed", number=number, reason=error)
        if self._failed:
            self.close()

    def close(self) -> None:
        """End the processes."""
        for process, pipe in self._running:
            pipe.close()
            process.join(timeout=30)
            if process.is_alive():
                process.terminate()
        self._running = []

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        for number in range(1, self.processes):
            mine, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, self.job, number, self.processes), daemon=True)
            process.start()
            theirs.close()
            self._running.append((process, mine))


def _told(pipe: Connection, corpus: Corpus) -> None:
    try:
        pipe.send(corpus)
    except OSError:
        return  # it has ended: reading its answer says so


def _work(pipe: Connection, job: Job, number: int, processes: int) -> None:
    """The life of a process: encode its share of each corpus that it is told, and say how that ended."""
    from lmk_eval.evaluation.open import OpenSuite
    from lmk_eval.evaluation.undisturbed import undisturbed

    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())
    with undisturbed(quiet=True):
        suite = OpenSuite(replace(job, settings=replace(job.settings, share=(number, processes))))
        while True:
            try:
                corpus: Corpus = pipe.recv()
            except EOFError:
                return
            try:
                suite.encode(corpus)
                pipe.send("")
            except Exception as error:  # noqa: BLE001 - told to the process that asked, which goes on
                traceback.print_exc()
                pipe.send(f"{type(error).__name__}: {error}".split("\n")[0])
