"""Trainings in forked processes that are signalled and killed for real, from inside or outside of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
from rank_trainings import SERVER, FileRecorder
from torch.distributed import TCPStore

from lmk_train import train
from lmk_train.config import TrainConfig
from lmk_train.fitting import fit
from lmk_train.ranks.group import formed
from lmk_train.ranks.place import Place

_LEAVE_SECONDS = 20.0


@dataclass(frozen=True)
class Kill:
    """Which signal at which step; to the ``whole`` job, data workers included as a scheduler does, or to one rank."""

    number: signal.Signals
    step: int
    rank: int | None = None


@dataclass
class Start:
    """One start of a training: how it is stopped, if at all, and how many workers read for it."""

    kill: Kill | None = None
    workers: int = 0
    codes: list[int] = field(default_factory=list)
    """With which its ranks ended."""


class KillingRecorder(FileRecorder):
    """Also signals the ranks, whose ids are in its folder."""

    def __init__(self, path: Path, kill: Kill | None) -> None:
        super().__init__(path)
        self.kill = kill

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        super().metrics(values, step)
        if self.kill is not None and step == self.kill.step:
            ranks = [int((self.path.parent / f"pid-{rank}").read_text()) for rank in range(_size(self.path.parent))]
            targets = [psutil.Process(pid) for pid in ranks]
            if self.kill.rank is not None:
                targets = [targets[self.kill.rank]]
            elif self.kill.number != signal.SIGKILL:
                targets = [one for rank in targets for one in (*rank.children(recursive=True), rank)]
            for one in sorted(targets, key=lambda target: target.pid == os.getpid()):  # itself last
                one.send_signal(self.kill.number)


def _size(folder: Path) -> int:
    return len(list(folder.glob("pid-*")))


def start(size: int, config: TrainConfig, folder: Path, one: Start, seconds: float = 120) -> list[int]:
    """Trains on ``size`` ranks until the end, or until they are killed; the exit codes of the ranks."""
    one.codes = ended(begin(size, config, folder, one), seconds)
    return one.codes


def begin(size: int, config: TrainConfig, folder: Path, one: Start) -> list[Any]:
    """Starts the ranks; their processes."""
    folder.mkdir(parents=True, exist_ok=True)
    values = config.model_dump(mode="json")
    values["runtime"]["num_workers"] = one.workers
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if size > 1 else None
    settings = (size, store.port if store else 0, json.dumps(values), str(folder), one.kill)
    ranks = [SERVER.Process(target=_rank, args=(rank, *settings)) for rank in range(size)]
    for rank, process in enumerate(ranks):
        process.start()
        process.store = store  # it has to live as long as they do
        (folder / f"pid-{rank}").write_text(str(process.pid))
    return ranks


def ended(ranks: list[Any], seconds: float = 120) -> list[int]:
    """Their exit codes, when they have ended; one that does not within ``seconds``, or soon when another was killed, is
    killed too, as srun does."""
    deadline = time.monotonic() + seconds
    while any(process.exitcode is None for process in ranks) and time.monotonic() < deadline:
        if any((process.exitcode or 0) < 0 for process in ranks):
            deadline = min(deadline, time.monotonic() + _LEAVE_SECONDS)
        time.sleep(0.02)
    for process in ranks:
        if process.exitcode is None:
            process.kill()
        process.join()
    return [process.exitcode for process in ranks]


def _rank(rank: int, size: int, port: int, config: str, folder: str, kill: Kill | None) -> None:
    torch.set_num_threads(1)
    # Data workers of a training are its children; those of the server would not notice that it was killed.
    multiprocessing.set_start_method("fork", force=True)
    values, place = TrainConfig.model_validate_json(config), Path(folder)
    recorder = KillingRecorder(place / "heard.jsonl", kill)
    if size == 1:
        train(values, place, recorder)
        return
    try:
        store = TCPStore("127.0.0.1", port, is_master=False)
        with formed(Place(rank, size, rank), store, cuda=False) as ranks:
            fit(values, place, recorder, ranks)
    except RuntimeError:  # another rank was killed
        os._exit(3)


def step_of_srun(environment: dict[str, str], config: str, folder: str) -> None:
    """One task of a step of srun, with handlers as submitit has them. They note themselves in ``FOLDER/handled``."""
    torch.set_num_threads(1)
    os.environ |= environment
    rank = int(environment["SLURM_PROCID"])

    def requeue(number: int, _: Any) -> None:
        if rank:
            return
        with (Path(folder) / "handled").open("a") as file:
            file.write(f"{signal.Signals(number).name}\n")
        sys.exit(99)

    signal.signal(signal.SIGUSR2, requeue)
    signal.signal(signal.SIGTERM, lambda *_: None)
    kill = Kill(signal.Signals[environment["KILLED"]], 3) if environment.get("KILLED") else None
    train(TrainConfig.model_validate_json(config), Path(folder), KillingRecorder(Path(folder) / "heard.jsonl", kill))
