"""What a grid's parent run says of the whole grid: when it is believed, and when it no longer is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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


def test_a_synced_grid_holds_the_scores_of_all_its_evaluations(two_rows, uri, looking) -> None:
    assert looking(two_rows, uri) is None
    sync(two_rows.path, uri=uri)
    grid, seen = load_grid(two_rows.path, "small"), looking(two_rows, uri)
    held = {f"{n:012x}": evaluation_cell(two_rows.path, f"{n:012x}").done()["scores"] for n in (11, 12, 13)}
    assert seen is not None
    assert read_scores(two_rows.path, grid, uri=uri, seen=seen) == held
    parent = two_rows.runs(uri, "evaluation")["grid small"]
    in_file = json.loads(two_rows.artifact(uri, parent, GRID_SCORES))
    assert in_file[f"{12:012x}"] == {"name": "multicls / tiny", "scores": held[f"{12:012x}"]}


def test_a_sync_that_wrote_has_read_nothing_but_that_file(two_rows, uri) -> None:
    report = sync(two_rows.path, uri=uri)
    assert report.seen.evaluations is None
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


def _another_grid(root) -> None:
    root.grid("other", [("cls", 0, f"{1:012x}", {"tiny": f"{11:012x}"})])


def _damaged(root) -> None:
    (evaluation_cell(root.path, f"{12:012x}").folder / "cell.json").write_text("{")


def _damaged_grid(root) -> None:
    (root.path / "grids" / "bad").mkdir()
    (root.path / "grids" / "bad" / "grid.json").write_text("{")


@pytest.mark.parametrize(
    "change", [_more_points, _failed, _other_scores, _another_title, _another_grid, _damaged, _damaged_grid]
)
def test_whatever_is_new_in_the_records_needs_a_sync(change, two_rows, uri, looking) -> None:
    held = load_grid(two_rows.path, "small")
    waiting = type(held.trainings[0])(f"{3:012x}", "later", 0)
    GridRecord(held.name, held.title, [*held.trainings, waiting], held.rows, held.table).save(two_rows.path)
    sync(two_rows.path, uri=uri)
    assert looking(two_rows, uri) is not None
    change(two_rows)
    assert looking(two_rows, uri) is None


def test_while_a_cell_runs_mlflow_is_not_imported_to_say_that_all_is_there(root, uri, monkeypatch, looking) -> None:
    training = root.train(1, {1: 2.0}, done=False)
    done = root.train(2)
    scores = {"Needle": {"main_score": 0.5}, "Words": {"main_score": 0.25}}
    rows = [("cls", 0, training, {}), ("mean", 0, done, {"tiny": root.evaluate(11, done, scores)})]
    root.grid("small", rows)
    with claimed(training_cell(root.path, training).folder):
        assert sync(root.path, uri=uri).writes
        parent = root.runs(uri, "evaluation")["grid small"]
        assert looking(root, uri) is not None
        open_store(root.path, uri).client.delete_tag(parent.info.run_id, SYNCED)
        assert looking(root, uri) is None
        monkeypatch.delitem(sys.modules, "mlflow")
        report = sync(root.path, uri=uri)
        assert (report.writes, report.seen.collected) == (0, {})
        assert report.seen.evaluations is not None


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


def test_a_file_that_only_mlflow_can_reach_is_read_by_it(two_rows, uri, looking, monkeypatch) -> None:
    from lmk_experiments.mirror.plain import NeedsMlflow, PlainClient

    def elsewhere(client, run, path):
        raise NeedsMlflow(path)

    sync(two_rows.path, uri=uri)
    seen = looking(two_rows, uri)
    monkeypatch.setattr(PlainClient, "artifact", elsewhere)
    grid = load_grid(two_rows.path, "small")
    assert len(read_scores(two_rows.path, grid, uri=uri, seen=seen)) == 3
    parent = two_rows.runs(uri, "evaluation")["grid small"]
    Path(parent.info.artifact_uri.removeprefix("file://").replace("%20", " ")).joinpath(GRID_SCORES).unlink()
    assert len(read_scores(two_rows.path, grid, uri=uri, seen=seen)) == 3
