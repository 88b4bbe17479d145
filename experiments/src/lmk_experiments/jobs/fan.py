"""A plan as jobs: one a training, one for all readings of it on its suites."""

from __future__ import annotations

import os
from pathlib import Path

from lmk_experiments.grids import Plan
from lmk_experiments.grids.schema import Need
from lmk_experiments.records import (
    Cell,
    GridRecord,
    RowRecord,
    TrainingRecord,
    evaluation_cell,
    training_cell,
)
from lmk_slurm import Job, Resources


def write_cells(plan: Plan, root: Path, table: dict[str, object] | None) -> GridRecord:
    """Make the folder of every cell of ``plan`` and record the plan. Cells that are there already stay as they are.

    Raises:
        ValueError: some data of the plan is not built, so its cells have no identity.
    """
    trainings, rows = [], []
    for training in plan.trainings:
        config = training.config.model_dump(mode="json")
        training_cell(root, _known(training.id)).create("training", config)
        trainings.append(TrainingRecord(_known(training.id), training.row, training.seed))
    for row in plan.rows:
        evaluations = {}
        for evaluation in row.evaluations:
            cell = evaluation_cell(root, _known(evaluation.id))
            cell.create("evaluation", evaluation.config(_known(row.training.id)))
            evaluations[evaluation.suite.name] = cell.id
        pooling = row.pooling.to_dict()
        rows.append(RowRecord(row.row, row.training.seed, _known(row.training.id), pooling, row.baseline, evaluations))
    record = GridRecord(plan.grid, plan.title, trainings, rows, table, plan.source)
    record.save(root)
    return record


def make_jobs(record: GridRecord, root: Path, plan: Plan) -> list[Job]:
    """The jobs of a recorded grid. An evaluation job waits for its own training and for nothing else."""
    jobs: list[Job] = []
    for training in record.trainings:
        cell = training_cell(root, training.id)
        label = training.row if _one_seed(record) else f"{training.row}, seed {training.seed}"
        train = Job(
            name=f"train {label}",
            function="lmk_experiments.jobs.train:run_training",
            argument=str(cell.folder),
            logs=cell.folder / "logs",
            done=(_marker(cell),),
            resources=_resources(plan.resources.train),
        )
        jobs.append(train)
        readings = [
            evaluation_cell(root, identity)
            for row in record.rows
            if row.training == training.id
            for identity in row.evaluations.values()
        ]
        if readings:
            jobs.append(
                Job(
                    name=f"evaluate {label}",
                    function="lmk_experiments.jobs.evaluate:run_evaluations",
                    argument=os.pathsep.join(str(cell.folder) for cell in readings),
                    logs=readings[0].folder / "logs",
                    after=(train.name,),
                    done=tuple(_marker(cell) for cell in readings),
                    resources=_resources(plan.resources.evaluate),
                )
            )
    return jobs


def _one_seed(record: GridRecord) -> bool:
    return len({training.seed for training in record.trainings}) == 1


def _marker(cell: Cell) -> Path:
    return cell.folder / "DONE.json"


def _resources(need: Need) -> Resources:
    return Resources(nodes=need.nodes, gpus=need.gpus, cpus=need.cpus, memory_gb=need.memory_gb, hours=need.hours)


def _known(identity: str | None) -> str:
    if identity is None:
        raise ValueError("this plan names data that is not built yet")
    return identity
