"""The hours of the report are those of the records, and of the status."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_root import START, Page, ReportRoot

from lmk_experiments.records import (
    GridRecord,
    RowRecord,
    TrainingRecord,
    evaluation_cell,
    load_grid,
    pretraining_cell,
)
from lmk_experiments.report import gather, render_page
from lmk_experiments.submit.states import grid_states


def test_the_report_and_the_status_count_the_same_hours(tmp_path: Path) -> None:
    """A pre-training, what ended in every way, and an evaluation that two shares have encoded."""
    root = ReportRoot(tmp_path)
    first = pretraining_cell(tmp_path, root.identity()).create("pretraining", {})
    on_two = {"event": "attempt", "job": "1_0", "gpus": 2, "nodes": "n[1-2]", "host": "n1", "pid": 1}
    root.events(
        first.folder,
        {"time": START, **on_two},
        {"time": START + 3600, "event": "stopped", "cause": "time", "step": 5},
        {"time": START + 7200, **on_two},
        {"time": START + 20_000, "event": "lost", "at": START + 9000},
        {"time": START + 20_000, **on_two},
        {"time": START + 21_800, "event": "failed", "failure": "out_of_gpu_memory", "reason": "OutOfMemoryError: x"},
    )
    (first.folder / "metrics.jsonl").write_text('{"step": 1, "time": 1.0, "values": {"train/loss": 2.0}}\n')
    training = root.train("cls", 0)
    tuned = root.evaluate(training, 0.1)
    for number in (1, 2):
        share = evaluation_cell(tmp_path, tuned).folder / "shares" / f"{number}-of-2"
        root.events(
            share,
            {"time": START, "event": "attempt", "job": f"2_{number}", "gpus": 4},
            {"time": START + 900, "event": "done"},
        )
    rows = [RowRecord(row, 0, training, {}, row == "cls", {"long": tuned}) for row in ("cls", "again")]
    GridRecord(
        "mixed", "", [TrainingRecord(training, "cls", 0)], rows, pretrainings=[TrainingRecord(first.id, "cls", 0)]
    ).save(tmp_path)
    record = load_grid(tmp_path, "mixed")
    parsed = Page(render_page(gather(record, tmp_path)))
    assert parsed.line("cls", "pretraining", "0")[3:6] == ["3", "2.00", "4.00"]
    assert parsed.line("cls", "1 evaluation", "0")[3:6] == ["1", "1.00", "2.50"]
    assert parsed.line("all")[5] == "30.50"
    ended = [line[10] for line in parsed.lines if line[:2] == ["cls", "pretraining"] and len(line) == 13]
    assert ended == ["its time was up", "ended without a word", "failed: OutOfMemoryError: x"]
    assert [line[5] for line in parsed.lines if line[:2] == ["cls", "pretraining"] and len(line) == 13] == [
        "n[1-2]"
    ] * 3
    assert parsed.line("cls", "1", "2")[0] == "cls", "the loss of a pre-training is a chart"
    states = grid_states(record, tmp_path)
    assert [round(one.gpu_hours, 6) for one in states.cells] == [4.0, 24.0, 2.5, 2.5]
    assert states.gpu_hours == pytest.approx(30.5), "one evaluation of two rows counts once"
