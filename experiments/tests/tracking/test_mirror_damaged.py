"""What keeps one grid or one cell from the mirror does not keep the others from it."""

from __future__ import annotations

import json
import threading
import time

import pytest

from lmk_experiments.cli.tracking import SideSync, sync_quietly
from lmk_experiments.mirror import LockedError, open_store, sync
from lmk_experiments.mirror.lock import locked


def test_another_grid_that_cannot_be_read_is_left_out_with_a_warning(two_rows, uri) -> None:
    other = two_rows.path / "grids" / "other" / "grid.json"
    other.parent.mkdir()
    other.write_text("[]")
    for asked in (None, ["small"]):
        report = sync(two_rows.path, asked, uri=uri)
        assert report.created + report.unchanged == 5
        assert len(report.warnings) == 1
        assert f"{other}: expected an object" in report.warnings[0]
    with pytest.raises(ValueError, match=r"other/grid\.json: expected an object"):
        sync(two_rows.path, ["other"], uri=uri)


def test_a_cell_with_damaged_records_is_mirrored_as_far_as_it_goes(two_rows, uri) -> None:
    folder = two_rows.path / "trainings" / f"{1:012x}"
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write("{}\n")
    (two_rows.path / "evaluations" / f"{11:012x}" / "DONE.json").write_text("{}")
    (two_rows.path / "evaluations" / f"{12:012x}" / "cell.json").write_text("[]")
    (folder / "mlflow.json").write_text(json.dumps([1]))
    report = sync(two_rows.path, uri=uri)
    assert report.created == 4, "all but the one whose cell.json is none"
    assert [part in " ".join(report.warnings) for part in ("metrics.jsonl:3: key 'time'", "cell.json: expected")] == [
        True,
        True,
    ]
    runs = two_rows.runs(uri, "evaluation")
    assert runs[f"{11:012x}"].info.status == "FAILED"
    assert runs[f"{13:012x}"].info.status == "FINISHED"


def test_a_grid_that_cannot_be_read_does_not_end_running_work(two_rows, capsys) -> None:
    (two_rows.path / "grids" / "small" / "grid.json").write_text("{}")
    sync_quietly(two_rows.path, ["small"])
    told = capsys.readouterr().err
    assert told.startswith("warning: not mirrored to MLflow now (")
    assert "grid.json: key 'grid' is missing" in told


def test_a_sync_beside_running_work_waits_as_long_as_it_is_told_for_every_lock(two_rows, tmp_path) -> None:
    database = tmp_path / "other.db"
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(tmp_path / "other.db.lock"):
            held.set()
            release.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    before = time.monotonic()
    try:
        with pytest.raises(LockedError):
            open_store(two_rows.path, str(database), wait_seconds=0.0)
        with pytest.raises(LockedError):
            sync(two_rows.path, uri=str(database), wait_seconds=0.0)
        assert time.monotonic() - before < 25, "the default would have waited for twice 30 seconds"
    finally:
        release.set()
        holder.join()


def test_syncs_beside_running_work_say_once_that_the_store_is_away(two_rows, uri, monkeypatch, capsys) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("LMK_STORE", "http://me:secret@127.0.0.1:9")
    beside = SideSync(two_rows.path, ["small"], wait_seconds=0.0)
    for _ in range(2):
        beside.soon()
        beside.end(60)
    told = capsys.readouterr().err
    assert told.count("not mirrored to MLflow now") == 1
    assert "secret" not in told
    assert beside.said.away
    monkeypatch.setenv("LMK_STORE", uri)
    for _ in range(2):
        beside.soon()
        beside.end(60)
    assert not beside.said.away
    assert capsys.readouterr().err.splitlines()[0] == "the MLflow store answers again"
    assert len(two_rows.runs(uri)) == 3
