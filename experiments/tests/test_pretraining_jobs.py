"""A grid with a pre-training: its cell, its job, and the fine-tune that waits for it."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmk_experiments.cli.follow import _choose, _of_row, _shared, show_tail
from lmk_experiments.cli.show_plan import cell_state as cell_state_name
from lmk_experiments.cli.show_plan import plan_json
from lmk_experiments.costs import plan_costs
from lmk_experiments.grids import Plan, load_grid_file, make_plan
from lmk_experiments.jobs.check import check_data
from lmk_experiments.jobs.fan import make_jobs, write_cells
from lmk_experiments.jobs.references import real_training
from lmk_experiments.mirror.wanted import places
from lmk_experiments.records import (
    Cell,
    CellError,
    CellRecorder,
    evaluation_cell,
    load_grid,
    pretraining_cell,
    training_cell,
)
from lmk_experiments.records.claim import claimed
from lmk_experiments.records.tickets import JobNote
from lmk_experiments.submit.states import cell_state, grid_states
from lmk_experiments.tables import collect, load_source
from lmk_experiments.upkeep import find_leftovers
from lmk_slurm import Sighting
from lmk_slurm.checks import check_jobs
from lmk_train.config import TrainConfig
from lmk_train.data import DataError

NOTE = JobNote(id="7_0", name="g", job="pretrain one", log="l", time=0.0, profile="p", user="u", host="h")
BASE = {
    "model": {"path": "org/base"},
    "pooling": {"kind": "cls"},
    "data": {"train": ["rows.jsonl"]},
    "optim": {"steps": 5, "batch_size": 2, "learning_rate": 1.0e-3},
}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "rows.jsonl").write_text('{"query": "a", "pos": ["b"], "neg": ["c"]}\n')
    (tmp_path / "texts.jsonl").write_text('{"text": "a text"}\n')
    first = {"method": "retromae", "data": {"train": ["texts.jsonl"]}, "optim": BASE["optim"]}
    grid = {
        "grid": "g",
        "base": ["./base.yaml"],
        "train": [
            {"row": "plain"},
            {"row": "one", "init": "./first.yaml"},
            {"row": "two", "init": "./first.yaml", "optim": {"steps": 6}},
        ],
        "evaluate": {"suites": ["mldr-en"], "max_length": 64},
    }
    for name, value in (("base", BASE), ("first", first), ("g", grid)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
    return make_plan(load_grid_file(str(tmp_path / "g.yaml")), tmp_path / "runs")


def test_a_fine_tune_waits_for_the_pretraining_that_it_shares(plan: Plan, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    record = write_cells(plan, root, None)
    (first,) = plan.pretrainings
    cell = pretraining_cell(root, str(first.id))
    assert cell.kind == "pretraining"
    assert cell.config["method"] == "retromae"
    jobs = {job.name: job for job in make_jobs(record, root, plan)}
    assert jobs["pretrain one"].argument == str(cell.folder)
    assert {name: job.after for name, job in jobs.items() if name.startswith(("pretrain", "train"))} == {
        "pretrain one": (),
        "train plain": (),
        "train one": ("pretrain one",),
        "train two": ("pretrain one",),
    }
    assert jobs["evaluate one"].after == ("train one",)
    read = load_grid(root, "g")
    assert [(one.id, one.row) for one in read.pretrainings] == [(first.id, "one")]
    states = [(one.kind, one.row, one.state.name) for one in grid_states(read, root).cells]
    assert states[0] == ("pretraining", "one", "planned")
    assert places([read])["training", str(first.id)].title == "one / pre-training"


def test_a_grid_that_was_recorded_before_has_no_pretrainings(plan: Plan, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_cells(plan, root, None)
    file = root / "grids/g/grid.json"
    value = json.loads(file.read_text())
    del value["pretrainings"]
    file.write_text(json.dumps(value))
    assert load_grid(root, "g").pretrainings == []


def test_a_fine_tunes_start_is_the_pretrainings_folder(plan: Plan, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_cells(plan, root, None)
    (first,) = plan.pretrainings
    tuned = next(one for one in plan.trainings if one.row == "one")
    config: dict[str, Any] = training_cell(root, str(tuned.id)).config
    with pytest.raises(CellError, match="is not done, so there is nothing to start from yet"):
        real_training(config, root)
    before = pretraining_cell(root, str(first.id))
    before.finish(1.0, model="model")
    values = real_training(config, root)
    assert TrainConfig.model_validate(values).init == str(before.folder)
    own = real_training(before.config, root)
    assert own["data"]["train"] == [str(tmp_path / "texts.jsonl")]
    assert "validation" not in own["data"]


def test_what_waits_in_vain_says_for_what(plan: Plan, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    record = write_cells(plan, root, None)
    first = pretraining_cell(root, record.pretrainings[0].id)
    tuned = training_cell(root, next(one.id for one in record.trainings if one.row == "one"))
    scored = evaluation_cell(root, next(row.evaluations["mldr-en"] for row in record.rows if row.row == "one"))
    never = Sighting("CANCELLED", "DependencyNeverSatisfied")
    assert cell_state(tuned, NOTE, never).reason == "its pre-training did not finish"
    assert cell_state(scored, NOTE, never).reason == "its training did not finish"
    CellRecorder(first.folder).event("attempt")
    CellRecorder(first.folder).event("failed", reason="ValueError: x")
    table = collect(record, load_source(root, record))
    states = {row.name: row.cells[0].state for row in table.rows}
    assert states == {"plain": "planned", "one": "pre-training failed (ValueError: x)", "two": states["one"]}


def test_a_row_has_its_pretraining_where_no_other_starts_from_it(plan: Plan, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    record = write_cells(plan, root, None)
    cells = grid_states(record, root).cells
    assert [(one.kind, one.row) for one in _of_row(record, root, cells, "one")] == [
        ("training", "one"),
        ("evaluation", "one"),
    ]
    alone = replace(record, trainings=[one for one in record.trainings if one.row != "two"])
    assert [one.kind for one in _of_row(alone, root, cells, "one")] == ["pretraining", "training", "evaluation"]
    assert [one.kind for one in _of_row(alone, root, cells, "plain")] == ["training", "evaluation"]
    assert _choose(record, root, "two", None, None).kind == "pretraining", "there is nothing else to see yet"
    assert _choose(record, root, "plain", None, None).kind == "training"
    pretraining_cell(root, record.pretrainings[0].id).finish(1.0, model="model")
    assert _choose(record, root, "two", None, None).row == "two"
    replace(record, name="other", trainings=[], rows=[]).save(root)
    jobs = {"7_0": "pretrain one"}
    assert _shared(record, root, [replace(cells[0], job=NOTE)], jobs) == {"other": ["pretrain one"]}


def test_following_a_row_goes_on_from_its_pretraining_to_its_training(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "runs"
    record = write_cells(plan, root, None)
    first = pretraining_cell(root, record.pretrainings[0].id)
    tuned = training_cell(root, next(one.id for one in record.trainings if one.row == "one"))
    at_work = contextlib.ExitStack()

    def start(cell: Cell, said: str) -> None:
        (cell.folder / "logs").mkdir()
        (cell.folder / "logs" / "1_0_log.out").write_text(said)
        at_work.enter_context(claimed(cell.folder))

    def end(cell: Cell, said: str) -> None:
        with (cell.folder / "logs" / "1_0_log.out").open("a") as file:
            file.write(said)
        at_work.close()

    def to_the_training() -> None:
        end(first, "the first one ends\n")
        first.finish(1.0, model="model")
        start(tuned, "the second begins\n")

    steps = iter([to_the_training, lambda: end(tuned, "and ends\n")])
    monkeypatch.setattr("lmk_experiments.cli.follow.time.sleep", lambda _: next(steps)())
    start(first, "the first one, which says more than the second\n")
    show_tail("g", "one", root, suite=None, seed=None, lines=5, follow=True)
    assert capsys.readouterr().out.splitlines() == [
        "the first one, which says more than the second",
        "the first one ends",
        "the second begins",
        "and ends",
    ]


def test_a_pretrainings_checkpoints_are_cleaned_like_a_trainings(plan: Plan, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    record = write_cells(plan, root, None)
    cell = pretraining_cell(root, record.pretrainings[0].id)
    (cell.folder / "model").mkdir()
    (cell.folder / "model" / "model.safetensors").write_bytes(b"x")
    (cell.folder / "checkpoints").mkdir()
    (cell.folder / "checkpoints" / "last.ckpt").write_bytes(b"x" * 1000)
    found, kept = find_leftovers(root, record)
    assert found == []
    assert [(one.name, one.reason) for one in kept] == [(f"pretraining {cell.id}", "it is not finished (1.0 kB)")]
    cell.finish(1.0, model="model")
    found, _ = find_leftovers(root, record)
    assert [one.path for one in found] == [cell.folder / "checkpoints"]


def test_faulty_texts_are_told_before_anything_starts(plan: Plan, tmp_path: Path) -> None:
    read: list[str] = []
    check_data(plan, lambda kind, identity: False, read.append)
    assert f"reading {tmp_path / 'texts.jsonl'}" in read
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n{"txt": "b"}\n')
    with pytest.raises(DataError, match=r"texts.jsonl:2: key 'text' is missing"):
        check_data(plan, lambda kind, identity: False, read.append)
    check_data(plan, lambda kind, identity: True, read.append)


def test_a_pretraining_that_has_served_and_is_gone_is_not_made_again(plan: Plan, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    record = write_cells(plan, root, None)
    first = pretraining_cell(root, record.pretrainings[0].id)
    first.finish(1.0, model="model")
    assert "pretrain one" in {job.name for job in make_jobs(record, root, plan)}
    one, two = (training_cell(root, training.id) for training in record.trainings if training.row != "plain")
    one.finish(1.0, model="model")
    shutil.rmtree(first.folder)

    record = write_cells(plan, root, None)  # "two" still starts from it
    assert (first.folder / "cell.json").exists()
    jobs = {job.name: job for job in make_jobs(record, root, plan)}
    assert jobs["train two"].after == ("pretrain one",)
    shutil.rmtree(first.folder)
    assert [cell.state.name for cell in grid_states(record, root).cells if cell.kind == "pretraining"] == ["planned"]

    two.finish(1.0, model="model")
    record = write_cells(plan, root, None)
    assert not first.folder.exists()
    jobs = {job.name: job for job in make_jobs(record, root, plan)}
    assert "pretrain one" not in jobs
    assert jobs["train two"].after == ()
    assert [cell.kind for cell in grid_states(record, root).cells if cell.kind == "pretraining"] == []
    check_jobs(list(jobs.values()))
    costs = plan_costs([plan], root, None, lambda kind, identity: cell_state_name(root, kind, identity) == "done")
    (shown,) = plan_json(plan, root, costs)["pretrainings"]
    assert shown["state"] == "not needed"
    (tmp_path / "texts.jsonl").write_text("not JSON")
    check_data(plan, lambda kind, identity: cell_state_name(root, kind, identity) == "done", lambda _: None)
