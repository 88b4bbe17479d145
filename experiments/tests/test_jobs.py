"""The functions that jobs call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmk_experiments.jobs.evaluate import EvaluationsFailed, run_evaluations
from lmk_experiments.records import evaluation_cell, training_cell


def test_one_failing_reading_does_not_keep_the_others_from_being_tried(tmp_path: Path) -> None:
    training = training_cell(tmp_path, "0" * 12).create("training", {})
    cells = [
        evaluation_cell(tmp_path, str(number) * 12).create("evaluation", {"training": training.id})
        for number in (1, 2, 3)
    ]
    with pytest.raises(EvaluationsFailed, match=r"3 of 3 evaluations failed: 111111111111: .* is not done"):
        run_evaluations(os.pathsep.join(str(cell.folder) for cell in cells))
    assert [cell.state().name for cell in cells] == ["failed"] * 3
    assert "is not done, so there is nothing to evaluate yet" in cells[2].state().reason
