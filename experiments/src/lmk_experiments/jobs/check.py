"""Read the user's own data once before anything starts: a faulty line is told now, not by a job an hour later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmk_eval.labels.folder import read_labels
from lmk_eval.tasks.folder import read_folder
from lmk_experiments.grids import Plan
from lmk_experiments.grids.analyses.plan import PlannedAnalysis
from lmk_experiments.grids.ready import needed_pretrainings
from lmk_train.data.reading import check_file
from lmk_train.pretraining.reading import check_texts

_READERS: dict[str, Callable[[str, str], object]] = {"folder": read_folder, "labels": read_labels}
"""What reads a task's own folder and says what is wrong with it."""


def check_data(plan: Plan, is_done: Callable[[str, str], bool], report: Callable[[str], None]) -> None:
    """Read every local training file and suite folder that unfinished cells of ``plan`` need, and the first text of
    every file that is analysed.

    Built data and published data sets were checked when they were made.

    Raises:
        ValueError: a faulty line; the message names file, line and key, and what would be valid.
    """
    for first in needed_pretrainings(plan, is_done):
        if first.id is None or not is_done("pretraining", first.id):
            data = first.config.data
            for reference in filter(_is_here, data.paths):
                report(f"reading {reference}")
                check_texts(reference, max_length=data.max_length, max_faulty=data.max_faulty)
    allowed: dict[str, float] = {}
    for training in plan.trainings:
        if training.id is None or not is_done("training", training.id):
            data = training.config.data
            # Two trainings of one file: the one that allows less decides.
            for reference in data.paths:
                allowed[reference] = min(allowed.get(reference, 1.0), data.max_faulty)
            if data.validation is not None:
                allowed[data.validation] = 0.0
    files = {reference: share for reference, share in allowed.items() if _is_here(reference)}
    own = dict.fromkeys(
        (task.kind, str(task.local), task.split or "test")
        for _, evaluation in plan.evaluations
        if evaluation.id is None or not is_done("evaluation", evaluation.id)
        for task in evaluation.suite.tasks
        if task.kind in _READERS and Path(str(task.local)).is_dir()
    )
    for analysis in plan.analyses:
        if analysis.id is None or not is_done("analysis", analysis.id):
            _check_texts(analysis)
    for file, share in files.items():
        report(f"reading {file}")
        check_file(file, max_faulty=share)
    for kind, folder, split in own:
        report(f"reading {folder}")
        _READERS[kind](folder, split)


def _check_texts(analysis: PlannedAnalysis) -> None:
    """See that the first text of each local source can be read, and a retrieval set whole.

    Raises:
        ValueError: with the file, the line and the key.
    """
    from lmk_experiments.texts import Source

    options = analysis.entry.options()
    keys = tuple(key.strip() for key in options.get("text_key", "text").split(","))
    for reference in filter(_is_here, analysis.references):
        if "folder" in options:
            read_folder(reference, options["split"])
        else:
            Source(reference, Path(reference), keys).check()


def _is_here(reference: str) -> bool:
    return Path(reference).exists()
