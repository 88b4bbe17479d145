from __future__ import annotations

import contextlib
import json
import multiprocessing
import shutil
import sqlite3
from pathlib import Path

import pytest

from lmk_experiments.mirror import StoreError, open_store, sync
from lmk_experiments.mirror.identity import FILE, checked_prefix, root_identity
from lmk_experiments.mirror.moved import MODELS, is_moved


def small(root, loss):
    training = root.train(1, {1: loss})
    root.grid("same", [("cls", 0, training, {})])
    return training


def _ask(path, queue):
    queue.put(root_identity(path).id)


def test_one_of_many_processes_makes_the_identity(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    asking = [context.Process(target=_ask, args=(tmp_path / "root", queue)) for _ in range(12)]
    for one in asking:
        one.start()
    assert len({queue.get(timeout=60) for _ in asking}) == 1
    for one in asking:
        one.join()
    assert [path.name for path in (tmp_path / "root").iterdir()] == [FILE]


def test_a_moved_root_keeps_its_identity_and_a_copy_gets_another(tmp_path):
    root = tmp_path / "root"
    own = root_identity(root).id
    shutil.copytree(root, tmp_path / "copy")
    assert root_identity(tmp_path / "copy").id != own
    assert root_identity(root).id == own
    root.rename(tmp_path / "moved")
    assert root_identity(tmp_path / "moved").id == own
    assert json.loads((tmp_path / "moved" / FILE).read_text())["path"] == str(tmp_path / "moved")
    (tmp_path / "link").symlink_to(tmp_path / "moved")
    assert root_identity(tmp_path / "link").id == own


def _files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _texts(root, name: str = "cell.json") -> dict[str, str]:
    return {cell: root.artifact(None, run, name) for cell, run in root.runs(None).items() if "grid" not in cell}


def test_a_moved_root_has_its_artifacts_where_it_is_now(two_rows, make_root):
    sync(two_rows.path)
    before, old = _texts(two_rows), two_rows.path
    moved = make_root("moved, it's elsewhere")
    old.rename(moved.path)
    report = sync(moved.path)
    assert report.created == 0
    assert report.warnings == [f"{moved.path} was at {old} before: its artifacts are looked for where it is now"]
    assert _texts(moved) == before
    moved.grid("more", [("cls", 0, moved.train(5), {})])
    assert sync(moved.path).warnings == []
    assert f"{5:012x}" in _texts(moved)
    assert not old.exists()
    assert all(run.info.artifact_uri.startswith(moved.path.as_uri()) for run in moved.runs(None, "evaluation").values())


def test_a_copy_writes_nothing_into_its_original(two_rows, make_root):
    sync(two_rows.path)
    copy = make_root("copy")
    shutil.copytree(two_rows.path, copy.path)
    before = _files(two_rows.path)
    fresh = copy.evaluate(14, f"{1:012x}", {"Needle": {"main_score": 0.5}})
    copy.grid("small", [("cls", 0, f"{1:012x}", {"tiny": fresh})])
    report = sync(copy.path)
    assert "its artifacts are looked for where it is now" in report.warnings[0]
    assert _files(two_rows.path) == before
    held = json.loads(copy.artifact(None, copy.runs(None, "evaluation")["grid small"], "scores.json"))
    assert held.keys() == {fresh}
    assert sync(two_rows.path).writes == 0


def test_a_root_by_another_path_is_left_as_it_is(two_rows, tmp_path):
    sync(two_rows.path)
    database, other = two_rows.path / "mlflow.db", tmp_path / "another way"
    before = database.read_bytes()
    other.symlink_to(two_rows.path)
    assert not is_moved(other, f"sqlite:///{other}/mlflow.db")
    assert not is_moved(two_rows.path, f"sqlite:///{database}")
    assert database.read_bytes() == before


def test_artifacts_that_are_at_the_old_place_alone_are_brought_along(two_rows, make_root):
    sync(two_rows.path)
    held, texts = _files(two_rows.path / "mlflow-artifacts"), _texts(two_rows)
    weights = two_rows.path / "mlflow-artifacts" / MODELS / "m-1" / "artifacts" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    copy = make_root("without its artifacts")
    shutil.copytree(two_rows.path, copy.path, ignore=shutil.ignore_patterns("mlflow-artifacts"))
    (copy.path / "mlflow-artifacts" / MODELS).mkdir(parents=True)
    (copy.path / "mlflow-artifacts" / ".bringing.half").mkdir()
    sync(copy.path)
    assert _texts(copy) == texts
    brought = copy.path / "mlflow-artifacts" / weights.relative_to(two_rows.path / "mlflow-artifacts")
    assert brought.samefile(weights)
    assert not (copy.path / "mlflow-artifacts" / ".bringing.half").exists()
    assert held.items() <= _files(two_rows.path / "mlflow-artifacts").items()


def test_other_addresses_are_left_alone(two_rows, make_root):
    sync(two_rows.path)
    moved = make_root("moved")
    with sqlite3.connect(two_rows.path / "mlflow.db") as database:
        database.execute(
            "UPDATE experiments SET artifact_location = 's3://bucket/mlflow-artifacts' WHERE name = 'lmk-analyze'"
        )
    two_rows.path.rename(moved.path)
    sync(moved.path)
    with sqlite3.connect(moved.path / "mlflow.db") as database:
        held = dict(database.execute("SELECT name, artifact_location FROM experiments"))
    own = (moved.path / "mlflow-artifacts").as_uri()
    assert held["lmk-analyze"] == "s3://bucket/mlflow-artifacts"
    assert held["lmk-train"] == held["lmk-evaluate"] == own
    assert not is_moved(moved.path, f"sqlite:///{moved.path}/mlflow.db")


def test_a_database_that_somebody_else_writes_is_not_half_set_right(two_rows, make_root, monkeypatch):
    sync(two_rows.path)
    moved = make_root("moved")
    two_rows.path.rename(moved.path)
    file = moved.path / "mlflow.db"
    own = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **more: own(*given, **{"timeout": 0.1, **more}))
    with contextlib.closing(own(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="cannot be set right now: database is locked"):
            sync(moved.path)
        other.execute("ROLLBACK")
    assert is_moved(moved.path, f"sqlite:///{file}")
    assert sync(moved.path).warnings


def test_a_root_of_somebody_else_that_came_from_another_machine_gets_another(tmp_path):
    root_identity(tmp_path)
    value = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(value | {"path": "/on/another/machine", "user": "somebody-else"}))
    assert root_identity(tmp_path).id != value["id"]


def test_a_damaged_identity_is_said(tmp_path):
    (tmp_path / FILE).write_text('{"id": 1}')
    with pytest.raises(ValueError, match=r"root.json is damaged: it names the runs of this root"):
        root_identity(tmp_path)


def test_two_machines_with_the_same_path_keep_apart_on_one_server(root, make_root, uri):
    training = small(root, 1.0)
    assert sync(root.path, uri=uri).created == 1
    aside = make_root("the first machine's")
    root.path.rename(aside.path)
    # Another machine: the same path, cells of the same names, and nothing of the first one's in sight.
    small(root, 2.0)
    assert sync(root.path, uri=uri).created == 1
    assert root.points(uri, root.runs(uri)[training]) == [(1, 2.0)]
    theirs = root.runs(uri)[training].info.run_id
    aside.path.rename(other := root.path.with_name("away"))
    root.path.rename(aside.path)
    other.rename(root.path)
    assert sync(root.path, uri=uri).writes == 0
    assert root.runs(uri)[training].info.run_id != theirs
    assert root.points(uri, root.runs(uri)[training]) == [(1, 1.0)]


def _as_before_identities(root, uri, kind="training"):
    """The store and the marks as they were when a path was all that named a root."""
    store = open_store(root.path, uri)
    for run in root.runs(uri, kind).values():
        store.client.delete_tag(run.info.run_id, "lmk.root_id")
    for file in root.path.glob("*/*/mlflow.json"):
        value = json.loads(file.read_text())
        file.write_text(json.dumps(value | {"root": str(root.path.resolve())}))
    (root.path / FILE).unlink()


def test_runs_from_before_there_were_identities_are_kept(root, uri):
    training = small(root, 1.0)
    sync(root.path, uri=uri)
    before = {name: run.info.run_id for name, run in root.runs(uri).items()}
    _as_before_identities(root, uri)
    assert root.runs(uri) == {}
    (root.path / FILE).unlink()
    assert sync(root.path, uri=uri).created == 0
    assert {name: run.info.run_id for name, run in root.runs(uri).items()} == before
    assert root.points(uri, root.runs(uri)[training]) == [(1, 1.0)]
    assert sync(root.path, uri=uri).writes == 0


def test_a_new_root_takes_no_runs_that_an_old_one_elsewhere_left_under_its_path(root, make_root, uri):
    training = small(root, 1.0)
    sync(root.path, uri=uri)
    theirs = root.runs(uri)[training].info.run_id
    _as_before_identities(root, uri)
    root.path.rename(make_root("elsewhere").path)
    small(root, 2.0)
    assert sync(root.path, uri=uri).created == 1
    assert root.runs(uri)[training].info.run_id != theirs


def test_a_prefix_is_used_and_remembered(root, uri, monkeypatch):
    training = small(root, 1.0)
    monkeypatch.setenv("LMK_EXPERIMENT_PREFIX", "group/ada")
    assert sync(root.path, uri=uri).created == 1
    monkeypatch.delenv("LMK_EXPERIMENT_PREFIX")
    assert sync(root.path, uri=uri).writes == 0
    client = open_store(root.path, uri).client
    run = root.runs(uri)[training]
    assert client.get_experiment(run.info.experiment_id).name == "group/ada/lmk-train"


@pytest.mark.parametrize("wrong", ["/x", "x/", "a//b", "a b", "..", "x" * 101, "a'b", "ä"])
def test_a_prefix_that_cannot_begin_a_name_is_refused(wrong):
    with pytest.raises(ValueError, match=r"valid: letters, digits and _ . -"):
        checked_prefix(wrong)
