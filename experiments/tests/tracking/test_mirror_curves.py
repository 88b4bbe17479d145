"""Files of curves are read from where the last look ended, and nothing of them is lost or told twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmk_experiments.mirror import curves, sync
from lmk_experiments.mirror.curves import is_read, pieces, points
from lmk_experiments.mirror.names import MAX_NAME
from lmk_experiments.records import CellRecorder, training_cell


def line(step: int, **values: float) -> str:
    return json.dumps({"step": step, "time": 1000.0 + step, "values": values}) + "\n"


def read(file: Path, curve: dict[str, Any] | None) -> tuple[list[tuple[int, dict[str, float]]], dict[str, Any]]:
    found: list[tuple[int, dict[str, float]]] = []
    after = curve or {"offset": 0, "lines": 0}
    for piece in pieces(file, curve):
        found += [(told["step"], told["values"]) for told in piece.lines]
        after = {"offset": piece.offset, "lines": piece.count}
    return found, after


def test_each_look_reads_what_is_new_and_leaves_a_line_that_is_being_written(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    assert read(file, None)[0] == []
    file.write_text(line(1, a=1) + line(2, a=2)[:10])
    found, after = read(file, None)
    assert found == [(1, {"a": 1})]
    assert not is_read(file, after)
    file.write_text(line(1, a=1) + line(2, a=2) + line(2, b=3) + line(3, a=4))
    found, after = read(file, after)
    assert found == [(2, {"a": 2, "b": 3}), (3, {"a": 4})]
    assert is_read(file, after)
    file.write_text(line(9, a=9))  # another file, shorter than the one that was read
    assert read(file, after)[0] == [(9, {"a": 9})]


def test_a_long_file_comes_in_pieces_and_wrong_lines_are_named_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "CHUNK_BYTES", 100)
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(line(step, a=step) for step in range(1, 30)) + '{"step": "x"}\n' + line(30, a=30))
    found = list(pieces(file, None))
    assert len(found) > 5
    assert [told["step"] for piece in found for told in piece.lines] == list(range(1, 31))
    assert [wrong for piece in found for wrong in piece.wrong] == [
        f"{file}:30: key 'time' is missing; needed: time, step, values"
    ]


def test_steps_that_are_told_again_are_no_points(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(line(4, a=1) + line(5, a=1, b=1) + line(6, a=1, b=float("inf")))
    [piece] = pieces(file, None)
    assert [(name, step) for name, _, _, step in points(piece, "system/", {"system/a": 5})] == [
        ("system/b", 5),
        ("system/a", 6),
    ]


def test_names_that_are_too_long_stay_apart_and_are_said(root, uri) -> None:
    deep = {"x" * 200: {"y" * 100 + end: 1 for end in "ab"}}
    training = root.train(1, config={"deep": deep, "long": "z" * 7000, "short": 1})
    CellRecorder(training_cell(root.path, training).folder).metrics({"m" * 300 + end: 1.0 for end in "ab"}, 1)
    root.grid("long", [("cls", 0, training, {})])
    sync(root.path, uri=uri)
    run = root.runs(uri)[training]
    assert len(run.data.params) == 4
    assert len([name for name in run.data.metrics if len(name) == MAX_NAME]) == 2
    said = run.data.tags["lmk.cut"]
    assert said.startswith("parameters, whole in cell.json: deep.")
    assert said.endswith(", long")
    assert json.loads(root.artifact(uri, run, "cell.json"))["config"]["deep"] == deep
    assert sync(root.path, uri=uri).writes == 0


def test_scores_that_are_no_metrics_are_said(root, uri) -> None:
    many = {f"task{n}": {"main_score": n / 7, "z": n / 3} for n in range(40)}
    training = root.train(1)
    root.grid("wide", [("cls", 0, training, {"tiny": root.evaluate(11, training, many)})])
    sync(root.path, uri=uri)
    assert root.runs(uri, "evaluation")[f"{11:012x}"].data.tags["lmk.cut"] == "60 of 80 scores, all in scores.json"
    assert "lmk.cut" not in root.runs(uri)[training].data.tags
