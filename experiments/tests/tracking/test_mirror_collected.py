"""What a grid's parent run says of the whole grid: when it is believed, and when it no longer is."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from lmk_experiments.mirror import open_store, sync
from lmk_experiments.mirror.collected import COLLECTED, SYNCED, complete
from lmk_experiments.mirror.read import GRID_SCORES, read_scores
from lmk_experiments.records import CellRecorder, GridRecord, evaluation_cell, load_grid, training_cell
from lmk_experiments.records.claim import claimed
from lmk_experiments.tables.mirrored import sync_with_tables


@pytest.fixture
def looking(monkeypatch):
    """As in a process that has not imported MLflow."""

    def look(root, uri: str):
        with monkeypatch.context() as fresh:
            fresh.delitem(sys.modules, "mlflow", raising=False)
            return complete(root.path, load_grid(root.path, "small"), uri)

    return look


@pytest.fixture
def no_runs(monkeypatch):
    """Nothing but the grid's file can be read."""

    def refuse(*_):
        raise AssertionError("the runs of cells were asked for")

    return lambda: monkeypatch.setattr("lmk_experiments.mirror.read.runs_of_root", refuse)


def test_a_synced_grid_holds_the_scores_of_all_its_evaluations(two_rows, uri, looking, no_runs) -> None:
    assert looking(two_rows, uri) is None
    sync(two_rows.path, uri=uri)
    grid, seen = load_grid(two_rows.path, "small"), looking(two_rows, uri)
    held = {f"{n:012x}": evaluation_cell(two_rows.path, f"{n:012x}").done()["scores"] for n in (11, 12, 13)}
    parent = two_rows.runs(uri, "evaluation")["grid small"]
    no_runs()
    assert seen is not None
    assert read_scores(two_rows.path, grid, uri=uri, seen=seen) == held
    in_file = json.loads(two_rows.artifact(uri, parent, GRID_SCORES))
    assert in_file[f"{12:012x}"] == {"name": "multicls / tiny", "scores": held[f"{12:012x}"]}


def test_after_a_sync_that_wrote_that_file_alone_is_read(two_rows, uri, no_runs) -> None:
    report = sync(two_rows.path, uri=uri)
    assert report.seen.evaluations is None
    no_runs()
    assert len(read_scores(two_rows.path, load_grid(two_rows.path, "small"), uri=uri, seen=report.seen)) == 3


def _more_points(root) -> None:
    CellRecorder(training_cell(root.path, f"{1:012x}").folder).metrics({"train/loss": 0.125}, 3)


def _failed(root) -> None:
    recorder = CellRecorder(training_cell(root.path, f"{3:012x}").folder)
    training_cell(root.path, f"{3:012x}").create("training", {"seed": 0})
    recorder.event("attempt")
    recorder.event("failed", reason="out of memory")


def _other_scores(root) -> None:
    cell = evaluation_cell(root.path, f"{12:012x}")
    done = json.loads((cell.folder / "DONE.json").read_text())
    done["scores"]["Needle"]["main_score"] = 0.75
    (cell.folder / "DONE.json").write_text(json.dumps(done))


def _another_title(root) -> None:
    held = load_grid(root.path, "small")
    GridRecord(held.name, "Another", held.trainings, held.rows, held.table).save(root.path)


def _another_baseline(root) -> None:
    held = load_grid(root.path, "small")
    rows = [replace(row, baseline=not row.baseline) for row in held.rows]
    GridRecord(held.name, held.title, held.trainings, rows, held.table).save(root.path)


def _another_table(root) -> None:
    held = load_grid(root.path, "small")
    table = {"columns": [{"title": "Tiny", "suite": "tiny"}]}
    GridRecord(held.name, held.title, held.trainings, held.rows, table).save(root.path)


def _another_grid(root) -> None:
    root.grid("other", [("cls", 0, f"{1:012x}", {"tiny": f"{11:012x}"})])


def _damaged(root) -> None:
    (evaluation_cell(root.path, f"{12:012x}").folder / "cell.json").write_text("{")


def _damaged_grid(root) -> None:
    (root.path / "grids" / "bad").mkdir()
    (root.path / "grids" / "bad" / "grid.json").write_text("{")


@pytest.mark.parametrize(
    "change",
    [
        _more_points,
        _failed,
        _other_scores,
        _another_title,
        _another_baseline,
        _another_table,
        _another_grid,
        _damaged,
        _damaged_grid,
    ],
)
def test_whatever_is_new_in_the_records_needs_a_sync(change, two_rows, uri, looking) -> None:
    held = load_grid(two_rows.path, "small")
    waiting = type(held.trainings[0])(f"{3:012x}", "later", 0)
    GridRecord(held.name, held.title, [*held.trainings, waiting], held.rows, held.table).save(two_rows.path)
    sync(two_rows.path, uri=uri)
    assert looking(two_rows, uri) is not None
    change(two_rows)
    assert looking(two_rows, uri) is None


def test_while_a_cell_runs_no_grid_is_said_to_be_there(root, uri, looking) -> None:
    training, done = root.train(1, {1: 2.0}, done=False), root.train(2)
    scores = {"Needle": {"main_score": 0.5}, "Words": {"main_score": 0.25}}
    root.grid("small", [("cls", 0, training, {}), ("mean", 0, done, {"tiny": root.evaluate(11, done, scores)})])
    cell = training_cell(root.path, training)
    with claimed(cell.folder):
        report = sync(root.path, uri=uri)
        assert report.writes
        assert report.seen.collected == {}
        assert looking(root, uri) is None
        assert SYNCED not in root.runs(uri, "evaluation")["grid small"].data.tags
    cell.finish(1.0, metrics={}, model="model")
    sync(root.path, uri=uri)
    assert looking(root, uri) is not None
    with claimed(cell.folder):
        (cell.folder / "DONE.json").unlink()
        assert looking(root, uri) is None


def test_what_is_written_during_a_sync_is_not_taken_for_synced(two_rows, uri, looking) -> None:
    def table_text(grid):  # made after the curves were read
        _more_points(two_rows)
        return "a table"

    assert sync(two_rows.path, uri=uri, table_text=table_text).warnings == []
    assert looking(two_rows, uri) is None
    assert sync(two_rows.path, uri=uri).updated == 1
    assert looking(two_rows, uri) is not None


def test_a_refused_file_leaves_the_grid_unsaid(two_rows, uri, tmp_path, looking) -> None:
    own = f"sqlite:///{tmp_path}/refusing/mlflow.db"
    folder = tmp_path / "refusing" / "mlflow-artifacts"
    folder.parent.mkdir()
    folder.write_text("not a folder")
    report = sync(two_rows.path, uri=own)
    assert report.seen.collected == {}
    assert SYNCED not in two_rows.runs(own, "evaluation")["grid small"].data.tags
    assert looking(two_rows, own) is None
    assert len(read_scores(two_rows.path, load_grid(two_rows.path, "small"), uri=own, seen=report.seen)) == 3


def test_a_second_sync_neither_writes_the_scores_nor_the_word_again(two_rows, uri) -> None:
    sync_with_tables(two_rows.path, uri=uri)
    before = two_rows.runs(uri, "evaluation")["grid small"].data.tags
    assert sync_with_tables(two_rows.path, uri=uri).writes == 0
    _more_points(two_rows)
    # The points, and the tag: the scores are the same.
    assert sync_with_tables(two_rows.path, uri=uri).writes == 2
    after = two_rows.runs(uri, "evaluation")["grid small"].data.tags
    assert after[COLLECTED] == before[COLLECTED]
    assert after[SYNCED] != before[SYNCED]


def test_a_run_deleted_in_the_ui_is_the_next_sync_s_to_mend(two_rows, uri, looking) -> None:
    sync(two_rows.path, uri=uri)
    gone = two_rows.runs(uri, "evaluation")[f"{12:012x}"]
    open_store(two_rows.path, uri).client.delete_run(gone.info.run_id)
    assert looking(two_rows, uri) is not None
    assert sync(two_rows.path, uri=uri).created == 1


def _file(two_rows, uri: str) -> Path:
    parent = two_rows.runs(uri, "evaluation")["grid small"]
    return Path(unquote(parent.info.artifact_uri.removeprefix("file://"))) / GRID_SCORES


def test_where_the_file_is_gone_or_another_the_runs_are_read(two_rows, uri, looking) -> None:
    sync(two_rows.path, uri=uri)
    grid, seen, file = load_grid(two_rows.path, "small"), looking(two_rows, uri), _file(two_rows, uri)
    expected = read_scores(two_rows.path, grid, uri=uri)
    file.write_text(file.read_text().replace("0.25", "0.75"))
    assert read_scores(two_rows.path, grid, uri=uri, seen=seen) == expected
    file.unlink()
    assert read_scores(two_rows.path, grid, uri=uri, seen=seen) == expected
    assert len(expected) == 3


@pytest.mark.parametrize("error", [RuntimeError("the token has expired"), OSError("no route"), KeyError("Body")])
def test_whatever_an_artifact_store_answers_the_runs_are_read(two_rows, uri, looking, monkeypatch, error) -> None:
    sync(two_rows.path, uri=uri)
    grid, seen = load_grid(two_rows.path, "small"), looking(two_rows, uri)

    def fails(*_):
        raise error

    monkeypatch.setattr("lmk_experiments.mirror.read.artifact", fails)
    assert len(read_scores(two_rows.path, grid, uri=uri, seen=seen)) == 3
    through_mlflow = replace(seen, store=open_store(two_rows.path, uri))
    assert len(read_scores(two_rows.path, grid, uri=uri, seen=through_mlflow)) == 3
