"""What stands between a plan and its run: told before anything starts, all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmk_experiments.datasets import DataSetMissing, data_files, data_path, is_data_reference
from lmk_experiments.grids.plan import Plan, PlannedPretraining


class NotReady(ValueError):
    """A plan cannot be run on this machine as it is; the message says why, a line a reason."""


def needed_pretrainings(plan: Plan, is_done: Callable[[str, str], bool]) -> list[PlannedPretraining]:
    """The pre-trainings that some unfinished training starts from. Any other has served: it is never made again.

    Args:
        is_done: as of ``check_ready``.
    """
    waiting = [one for one in plan.trainings if one.pretraining and not (one.id and is_done("training", one.id))]
    starts = {one.pretraining.id for one in waiting if one.pretraining}
    return [first for first in plan.pretrainings if first.id in starts]


def check_ready(plan: Plan, root: Path, is_done: Callable[[str, str], bool]) -> None:
    """See that everything a plan's cells need is here or can be made. Looks, and changes nothing.

    Args:
        is_done: whether the cell of this kind (``pretraining``, ``training``, ``evaluation``, ``analysis``) and
            identity is done.

    Raises:
        NotReady: published data that is not on this machine.
    """
    reasons: dict[str, None] = {}
    for first in needed_pretrainings(plan, is_done):
        if not (first.id and is_done("pretraining", first.id)):
            for reference in first.config.data.paths:
                _look(lambda reference=reference: data_files(reference, root), reference, reasons)
    for training in plan.trainings:
        if training.id is not None and is_done("training", training.id):
            continue
        data = training.config.data
        for reference in (*data.paths, *([data.validation] if data.validation else [])):
            _look(lambda reference=reference: data_files(reference, root), reference, reasons)
    for _, evaluation in plan.evaluations:
        if evaluation.id is not None and is_done("evaluation", evaluation.id):
            continue
        for task in evaluation.suite.tasks:
            if (own := task.local) is not None:
                _look(lambda own=own: data_path(own, root), own, reasons)
    for analysis in plan.analyses:
        if analysis.id is None or not is_done("analysis", analysis.id):
            for reference in analysis.references:
                _look(lambda reference=reference: data_files(reference, root), reference, reasons)
    if reasons:
        raise NotReady("\n".join([f"{plan.grid} cannot run here yet:", *(f"  {reason}" for reason in reasons)]))


def _look(find: Callable[[], object], reference: str, reasons: dict[str, None]) -> None:
    if not is_data_reference(reference):
        return
    try:
        find()
    except DataSetMissing as missing:
        reasons[str(missing)] = None
