"""The job of a training cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_experiments.fetch import require_model
from lmk_experiments.jobs.references import real_training
from lmk_experiments.jobs.startup import quick_imports, quiet_progress
from lmk_experiments.jobs.work import work_on
from lmk_experiments.records import Cell, CellRecorder


def run_training(folder: str) -> None:
    """Train the cell in ``folder`` unless it is done: the function of a training job."""
    cell = Cell(Path(folder))

    def work(recorder: CellRecorder) -> dict[str, Any]:
        with quick_imports():
            from lmk_train import train
            from lmk_train.config import TrainConfig
        quiet_progress()

        model = cell.config["model"]
        require_model(model["path"], model.get("revision"))
        config = TrainConfig.model_validate(real_training(cell.config, cell.root))
        model = train(config, cell.folder, recorder)
        last: dict[str, float] = {}
        for line in cell.metrics():
            last.update(line["values"])
        return {"model": str(model.relative_to(cell.folder)), "metrics": last}

    work_on(cell, work)
