"""A plan as jobs: one a pre-training, one a training, one for all readings of it on its suites, one an analysis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lmk_experiments.grids import Plan, PlannedEvaluation, PlannedPretraining, PlannedTraining
from lmk_experiments.grids.analyses.plan import PlannedAnalysis
from lmk_experiments.grids.ready import needed_pretrainings
from lmk_experiments.jobs.room import threads
from lmk_experiments.jobs.shares import share_of
from lmk_experiments.profiles import Facts, Profile, cpus_here, resources_of, shares_of, split_by
from lmk_experiments.records import (
    AnalysisRecord,
    Cell,
    ElsewhereRecord,
    GridRecord,
    RowRecord,
    TrainingRecord,
    analysis_cell,
    evaluation_cell,
    pretraining_cell,
    training_cell,
)
from lmk_slurm import Job, Resources


def record_of(plan: Plan, table: dict[str, object] | None = None) -> GridRecord:
    """``plan`` as it is recorded; writes nothing.

    Raises:
        ValueError: some data of the plan is not built, so its cells have no identity.
    """
    first = [TrainingRecord(_known(one.id), one.row, one.seed) for one in plan.pretrainings]
    trainings = [TrainingRecord(_known(training.id), training.row, training.seed) for training in plan.trainings]
    rows = [
        RowRecord(
            row.row,
            row.training.seed,
            _known(row.training.id),
            row.pooling.to_dict(),
            row.baseline,
            {evaluation.suite.name: _known(evaluation.id) for evaluation in row.evaluations},
        )
        for row in plan.rows
    ]
    elsewhere = [ElsewhereRecord(one.row, one.results, one.scores, one.missing) for one in plan.elsewhere]
    analyses = [_analysis_record(one) for one in plan.analyses]
    return GridRecord(plan.grid, plan.title, trainings, rows, table, plan.source, elsewhere, first, analyses)


def _analysis_record(planned: PlannedAnalysis) -> AnalysisRecord:
    trainings = [_known(one.id) for one in planned.trainings]
    return AnalysisRecord(_known(planned.id), planned.row, planned.seed, planned.entry.kind, planned.title, trainings)


def write_cells(
    plan: Plan, root: Path, table: dict[str, object] | None, report: Callable[[str], None] = lambda _: None
) -> GridRecord:
    """Make the folder of every cell of ``plan`` and record the plan. Cells that are there already stay as they are.
    A pre-training that has served, and whose folder is gone, gets none.

    A ``DONE.json`` that cannot be read is moved aside, so that no job takes it for the mark of finished work.

    Args:
        report: told one line for each of these.

    Raises:
        ValueError: as ``record_of``.
    """
    record = record_of(plan, table)
    cells: list[Cell] = []
    for first in needed_pretrainings(plan, _is_done(root)):
        cell = pretraining_cell(root, _known(first.id))
        cells.append(cell.create("pretraining", first.config.model_dump(mode="json")))
    for training in plan.trainings:
        cell = training_cell(root, _known(training.id))
        cells.append(cell.create("training", training.config.model_dump(mode="json")))
    for row, evaluation in plan.evaluations:
        config = evaluation.config(_known(row.training.id))
        cells.append(evaluation_cell(root, _known(evaluation.id)).create("evaluation", config))
    cells += [analysis_cell(root, _known(one.id)).create("analysis", one.config()) for one in plan.analyses]
    for cell in cells:
        if unreadable := cell.put_aside():
            report(unreadable)
    record.save(root)
    return record


def make_jobs(record: GridRecord, root: Path, plan: Plan, profile: Profile | None = None) -> list[Job]:
    """The jobs of a recorded grid. An evaluation job waits for its own training and for nothing else, or, where the
    resources cut it into shares, for the jobs of these; a training waits for the pre-training that it starts from, an
    analysis for the trainings that it looks at. A pre-training that has served, since all that start from it are done,
    has no job unless it is done itself.

    Args:
        profile: what jobs ask there. Without one they run on this machine, each as one process: a training starts its
            own further ones, as many as ``runtime.devices`` says.

    Raises:
        ValueError: what the grid and the profile ask does not fit together.
    """
    jobs: list[Job] = []
    before: dict[str, str] = {}
    """Identity of a pre-training or a training to the name of its job."""
    needed = [first.id for first in needed_pretrainings(plan, _is_done(root))]
    for first in plan.pretrainings:
        cell = pretraining_cell(root, _known(first.id))
        if first.id not in needed and cell.done() is None:
            continue
        job = _training_job(f"pretrain {_label(first, record)}", cell, _pretraining_facts(first), plan, profile)
        before[_known(first.id)] = job.name
        jobs.append(job)
    for planned in plan.trainings:
        cell = training_cell(root, _known(planned.id))
        label = _label(planned, record)
        train = _training_job(f"train {label}", cell, _training_facts(planned), plan, profile)
        if planned.pretraining is not None and planned.pretraining.id in before:
            train = replace(train, after=(before[planned.pretraining.id],))
        before[_known(planned.id)] = train.name
        jobs.append(train)
        for suites, evaluations in _split(plan, planned, profile):
            readings = [evaluation_cell(root, _known(evaluation.id)) for evaluation in evaluations]
            longest = max(evaluation.max_length for evaluation in evaluations)
            facts = replace(_training_facts(planned), kind="evaluation", max_length=longest)
            score = Job(
                name=f"evaluate {label}{suites}",
                function="lmk_experiments.jobs.evaluate:run_evaluations",
                argument=os.pathsep.join(str(cell.folder) for cell in readings),
                logs=readings[0].folder / "logs",
                after=(train.name,),
                done=tuple(_marker(cell) for cell in readings),
                resources=_resources(facts, plan, profile),
            )
            count = shares_of(plan.resources, {evaluation.suite.name for evaluation in evaluations}, profile)
            shares = _share_jobs(score, readings, count)
            jobs += [*shares, replace(score, after=tuple(share.name for share in shares) or score.after)]
    jobs += [_analysis_job(one, root, before, plan, profile) for one in plan.analyses]
    return jobs if profile is not None else [replace(job, environment=threads(job.resources)) for job in jobs]


def _analysis_job(
    planned: PlannedAnalysis, root: Path, before: Mapping[str, str], plan: Plan, profile: Profile | None
) -> Job:
    cell = analysis_cell(root, _known(planned.id))
    several = len([one for one in plan.analyses if one.row == planned.row]) > 1
    name = f"{planned.row}, seed {planned.seed}" if several else planned.row
    longest = planned.entry.options().get("max_length") or 0
    models = [one.training.config.model.path for one in planned.series if one.training]
    facts = Facts(
        "analysis",
        planned.row,
        next(iter([*models, *(model for model, _ in planned.models)]), ""),
        max(longest) if isinstance(longest, list) else longest,
    )
    return Job(
        name=f"analyze {name}",
        function="lmk_experiments.jobs.analyze:run_analysis",
        argument=str(cell.folder),
        logs=cell.folder / "logs",
        after=tuple(before[_known(one.id)] for one in planned.trainings),
        done=(_marker(cell),),
        resources=_resources(facts, plan, profile),
    )


def _share_jobs(score: Job, readings: Sequence[Cell], count: int) -> list[Job]:
    """The jobs that encode for ``score`` what its unfinished readings need; none where it does so itself."""
    left = [cell for cell in readings if cell.done() is None]
    if count == 1 or not left:
        return []
    jobs = []
    for number in range(count):
        shares = [share_of(cell, number, count) for cell in left]
        jobs.append(
            replace(
                score,
                name=f"{score.name}, share {number + 1} of {count}",
                function="lmk_experiments.jobs.evaluate:run_shares",
                argument=os.pathsep.join(str(share.folder) for share in shares),
                logs=shares[0].folder / "logs",
                done=tuple(_marker(share) for share in shares),
            )
        )
    return jobs


def _training_job(name: str, cell: Cell, facts: Facts, plan: Plan, profile: Profile | None) -> Job:
    return Job(
        name=name,
        function="lmk_experiments.jobs.train:run_training",
        argument=str(cell.folder),
        logs=cell.folder / "logs",
        done=(_marker(cell),),
        resources=_resources(facts, plan, profile),
    )


def _label(planned: PlannedTraining | PlannedPretraining, record: GridRecord) -> str:
    return planned.row if _one_seed(record) else f"{planned.row}, seed {planned.seed}"


def _resources(facts: Facts, plan: Plan, profile: Profile | None) -> Resources:
    found = resources_of(facts, plan.resources, profile)
    if profile is not None:
        return found
    return replace(found, nodes=1, tasks=1, cpus=cpus_here(facts, plan.resources))


def _split(
    plan: Plan, training: PlannedTraining, profile: Profile | None
) -> Iterator[tuple[str, list[PlannedEvaluation]]]:
    """The evaluations of one training that one job does, with what the job's name says of them."""
    own = [evaluation for row, evaluation in plan.evaluations if row.training.id == training.id]
    if split_by(plan.resources, profile) == "training":
        if own:
            yield "", own
        return
    for suite in dict.fromkeys(evaluation.suite.name for evaluation in own):
        yield f" on {suite}", [evaluation for evaluation in own if evaluation.suite.name == suite]


def _training_facts(training: PlannedTraining) -> Facts:
    data = training.config.data
    longest = max(data.query_max_length, data.passage_max_length)
    runtime = training.config.runtime
    return Facts(
        "training", training.row, training.config.model.path, longest, devices=runtime.devices, nodes=runtime.nodes
    )


def _pretraining_facts(first: PlannedPretraining) -> Facts:
    """A pre-training asks for what a training of its length does."""
    config, runtime = first.config, first.config.runtime
    length = config.data.max_length
    return Facts("training", first.row, config.model.path, length, devices=runtime.devices, nodes=runtime.nodes)


def _one_seed(record: GridRecord) -> bool:
    return len({training.seed for training in record.trainings}) == 1


def _is_done(root: Path) -> Callable[[str, str], bool]:
    """Whether a training is done."""
    return lambda _, identity: training_cell(root, identity).done() is not None


def _marker(cell: Cell) -> Path:
    return cell.folder / "DONE.json"


def _known(identity: str | None) -> str:
    if identity is None:
        raise ValueError("this plan names data that is not built yet")
    return identity
