"""What the jobs do: light cells that count steps and save each, and a real tiny training that is slowed down."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from lmk_experiments.jobs import train as train_job
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellError, CellRecorder, training_cell

MEGABYTES = 1500
"""What a cell takes that is to be killed for its memory."""


def train(folder: str) -> None:
    """Counts ``steps`` steps of ``pace`` seconds. Each is saved, so that a later start goes on there."""
    cell = Cell(Path(folder))

    def work(recorder: CellRecorder) -> dict[str, Any]:
        config, saved = cell.config, cell.folder / "saved" / "step"
        first = int(saved.read_text()) if saved.exists() else 0
        for step in range(first, config["steps"]):
            time.sleep(config["pace"])
            if step == config["steps"] // 2:
                _trouble(config["do"], cell.folder)
            _journal(cell.folder, step)
            draft = saved.with_suffix(".new")
            draft.write_bytes(f"{step + 1}".encode().ljust(config["bytes"]))
            draft.replace(saved)
            recorder.progress(step + 1, config["steps"])
        return {"model": "model", "metrics": {"last": float(config["steps"])}}

    (cell.folder / "saved").mkdir(exist_ok=True)
    work_on(cell, work)


def train_slowly(folder: str) -> None:
    """The real job of a training, in which each step takes ``LMK_PACE`` seconds longer."""
    from lmk_train.modules.contrastive import ContrastiveModule

    step, pace = ContrastiveModule.training_step, float(os.environ.get("LMK_PACE", "0"))

    def slow(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.trainer.is_global_zero:
            _journal(Path(folder), self.trainer.global_step)
        time.sleep(pace)
        return step(self, *arguments, **named)

    ContrastiveModule.training_step = slow
    train_job.run_training(folder)


def evaluate(folders: str) -> None:
    """As the real one: refuses to read a training that is not done."""
    for folder in folders.split(os.pathsep):
        cell = Cell(Path(folder))

        def work(recorder: CellRecorder, cell: Cell = cell) -> dict[str, object]:
            if training_cell(cell.root, cell.config["training"]).done() is None:
                raise CellError("the training is not done")
            time.sleep(cell.config["pace"])
            return {"scores": {"task": {"main_score": cell.config["score"]}}}

        work_on(cell, work)


def _trouble(do: str, folder: Path) -> None:
    if do == "" or (folder / "mended").exists():
        return
    (folder / "mended").touch()
    if do == "memory error":
        raise MemoryError("raised by the test")
    if do == "gpu memory":
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
    if do == "eat":
        (folder / "mended").unlink()
        held = [bytearray(1 << 20) for _ in range(MEGABYTES)]
        time.sleep(6)
        del held
        (folder / "mended").touch()


def _journal(folder: Path, step: int) -> None:
    who = f"{os.environ.get('SLURMD_NODENAME', os.uname().nodename)}-{os.getpid()}"
    with (folder / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"time": time.time(), "who": who, "step": step}) + "\n")
