"""The job of a training or pre-training cell: one process, or every task of an srun step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.fetch import require_model
from lmk_experiments.jobs.references import real_training
from lmk_experiments.jobs.startup import quick_imports, quiet_progress
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellRecorder
from lmk_train.ranks.line import OtherEnd, joined_step

if TYPE_CHECKING:
    from lmk_train.ranks.line import FirstEnd


def run_training(folder: str) -> None:
    """Train the cell in ``folder`` unless it is done: the function of a training job, and of a pre-training's.

    Of several tasks of one srun step the first claims the cell, records, and writes ``DONE.json``. The others wait for
    its word and end well where there is nothing to do; one that fails says so on the line, and srun ends the step.
    """
    cell = Cell(Path(folder))
    with joined_step() as step:
        if isinstance(step, OtherEnd):
            _follow(cell, step)
        else:
            _lead(cell, step)


def _lead(cell: Cell, step: FirstEnd | None) -> None:
    told = False

    def work(recorder: CellRecorder) -> dict[str, Any]:
        nonlocal told
        model, init = cell.config["model"], cell.config.get("init")
        if init is None:
            require_model(model["path"], model.get("revision"))
        values = real_training(cell.config, cell.root)
        if step is not None:
            # Where a training runs is no part of what it is: the job's resources say how many ranks there are.
            runtime = {"devices": step.place.devices, "nodes": step.place.nodes}
            values = {**values, "runtime": {**values.get("runtime", {}), **runtime}}
            step.tell(train=values)
            told = True
        _train(values, cell, recorder, step)
        last: dict[str, float] = {}
        for line in cell.metrics():
            last.update(line["values"])
        return {"model": "model", "metrics": last}

    try:
        work_on(cell, work)
    finally:
        if step is not None and not told:
            step.tell(train=None)


def _follow(cell: Cell, step: OtherEnd) -> None:
    values = step.told()["train"]
    if values is None:
        print("nothing to do here: the first rank has found the cell done, or in another's hands", flush=True)
    else:
        _train(values, cell, None, step)


def _train(values: dict[str, Any], cell: Cell, recorder: CellRecorder | None, step: FirstEnd | OtherEnd | None) -> None:
    with quick_imports():
        from lmk_train import PretrainConfig, TrainConfig, pretrain, train
    quiet_progress()
    if cell.kind == "pretraining":
        pretrain(PretrainConfig.model_validate(values), cell.folder, recorder, step)
    else:
        train(TrainConfig.model_validate(values), cell.folder, recorder, step)
