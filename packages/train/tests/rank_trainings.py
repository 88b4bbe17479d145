"""Real trainings on several ranks, each a fork of one process that has imported torch: a start takes moments."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from stopping import Stopped
from torch.distributed import TCPStore

from lmk_train.callbacks import Checkpoints
from lmk_train.config import TrainConfig
from lmk_train.fitting import fit
from lmk_train.ranks.group import formed
from lmk_train.ranks.place import Place

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["lmk_train.fitting", "transformers.models.modernbert.modeling_modernbert"])


class FileRecorder:
    """Writes what it hears as lines of JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _write(self, **line: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def event(self, kind: str, **fields: Any) -> None:
        self._write(event=kind, **fields)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._write(step=step, values=dict(values))

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        pass


def train_on(size: int, config: TrainConfig, folder: Path, *, stop: int | None = None) -> list[dict[str, Any]]:
    """Trains on ``size`` ranks; what the recorder has heard. With ``stop``, all of them die behind that step."""
    folder.mkdir(parents=True, exist_ok=True)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    heard = folder / f"heard-{len(list(folder.glob('heard-*')))}"
    settings = (size, store.port, config.model_dump_json(), str(folder), str(heard), stop)
    ranks = [SERVER.Process(target=_rank, args=(rank, *settings)) for rank in range(size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
        process.kill()
    codes = [process.exitcode for process in ranks]
    assert codes == [0 if stop is None else 3] * size, codes
    return [json.loads(line) for line in heard.read_text().splitlines()]


def _rank(rank: int, size: int, port: int, config: str, folder: str, heard: str, stop: int | None) -> None:
    torch.set_num_threads(1)
    original = Checkpoints.on_train_batch_end

    def hook(self: Checkpoints, trainer: Any, *args: Any) -> None:
        original(self, trainer, *args)
        if trainer.global_step == stop:
            raise Stopped

    Checkpoints.on_train_batch_end = hook
    try:
        with formed(Place(rank, size, rank), TCPStore("127.0.0.1", port, is_master=False), cuda=False) as ranks:
            fit(TrainConfig.model_validate_json(config), Path(folder), FileRecorder(Path(heard)), ranks)
    except Stopped:
        os._exit(3)
