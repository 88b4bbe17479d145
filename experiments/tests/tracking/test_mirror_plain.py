"""Looking at a store without MLflow: the same runs, the same numbers, and nothing that it does not see."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from lmk_experiments.mirror import open_store
from lmk_experiments.mirror.plain import NeedsMlflow, SqliteReader
from lmk_experiments.mirror.plain.sql import newest_schema
from lmk_experiments.mirror.read import COLLECTED, runs_of_root
from lmk_experiments.mirror.store import ROOT_ID
from lmk_experiments.mirror.wanted import MAX_SCORES
from lmk_experiments.mirror.writer import digest
from lmk_experiments.records import CellRecorder, training_cell

IMPORTED = (
    "import sys\nfrom lmk_experiments.cli.main import main\n"
    "try:\n    main()\nfinally:\n    print('mlflow' in sys.modules, file=sys.stderr)\n"
)


def lmk(*words: str, root: Path, uri: str | None) -> tuple[str, bool]:
    """What a fresh `lmk` prints, and whether it imported MLflow."""
    environment = {**os.environ, "LMK_ROOT": str(root)}
    for name in ("LMK_STORE", "MLFLOW_TRACKING_URI"):
        environment.pop(name, None)
    if uri is not None:
        environment["LMK_STORE"] = uri
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.strip().splitlines()[-1] == "True"


@pytest.fixture(scope="module")
def filled(kept_root):
    """A root with a curve, a few scores, more scores than a run's metrics hold, and a grid of them."""
    training = kept_root.train(1, {1: 0.5, 2: 0.25})
    few = kept_root.evaluate(11, training, {"Needle": {"main_score": 0.1 + 0.2}, "Words": {"main_score": 1 / 3}})
    many = {"Needle": {"main_score": 0.125, **{f"at_{number}": number / 7 for number in range(MAX_SCORES)}}}
    more = kept_root.evaluate(12, training, many, {"name": "many", "title": None, "tasks": [{"name": "Needle"}]})
    kept_root.grid("one", [("cls", 0, training, {"tiny": few, "many": more})])
    assert lmk("sync", root=kept_root.path, uri=None)[1]
    return kept_root


def test_a_table_of_a_store_with_everything_in_it_imports_no_mlflow(filled) -> None:
    printed, imported = lmk("table", "one", root=filled.path, uri=None)
    assert not imported
    assert "numbers from MLflow" in printed
    records, _ = lmk("table", "one", "--from", "records", root=filled.path, uri=None)
    assert printed.partition("numbers from")[0] == records.partition("numbers from")[0]
    printed, imported = lmk("sync", root=filled.path, uri=None)
    assert not imported
    assert "0 created, 0 updated, 3 unchanged" in printed


def file_of(run) -> Path:
    return Path(unquote(run.info.artifact_uri.removeprefix("file://"))) / "scores.json"


def test_the_numbers_are_the_store_s_and_not_the_records(filled) -> None:
    client, parent = open_store(filled.path).client, filled.runs(None, "evaluation")["grid one"]
    file, mark = file_of(parent), parent.data.tags[COLLECTED]
    before = file.read_text()
    file.write_text(before.replace("0.125", "0.875"))
    client.set_tag(parent.info.run_id, COLLECTED, digest(file.read_text()))
    printed, imported = lmk("table", "one", root=filled.path, uri=None)
    file.write_text(before)
    client.set_tag(parent.info.run_id, COLLECTED, mark)
    assert not imported
    assert "87.5" in printed
    assert "12.5" not in printed
    assert "12.5" in lmk("table", "one", root=filled.path, uri=None)[0]


def test_where_a_grid_s_scores_are_not_those_of_its_tag_the_cells_runs_are_read(filled) -> None:
    runs = filled.runs(None, "evaluation")
    of_grid, of_cell = file_of(runs["grid one"]), file_of(runs[f"{12:012x}"])
    before = {file: file.read_text() for file in (of_grid, of_cell)}
    of_grid.write_text(before[of_grid].replace("0.125", "0.5"))
    of_cell.write_text(before[of_cell].replace("0.125", "0.875"))
    printed, imported = lmk("table", "one", root=filled.path, uri=None)
    for file, text in before.items():
        file.write_text(text)
    assert not imported
    assert "87.5" in printed


def test_runs_are_those_that_mlflow_reads(filled) -> None:
    store = open_store(filled.path)
    reader = SqliteReader(filled.path / "mlflow.db")
    assert reader.experiments(["lmk-train", "none"]) == {"lmk-train": store.experiments["training"]}
    for kind, count in (("training", 2), ("evaluation", 3)):
        own = runs_of_root(store, kind)
        plain = reader.runs_with(store.experiments[kind], {ROOT_ID: store.root.id})
        assert len(own) >= count
        assert list(plain) == list(own)
        for run_id, run in own.items():
            info = plain[run_id].info
            assert all(getattr(info, name) == getattr(run.info, name) for name in vars(info)), info
            assert vars(plain[run_id].data) == run.data.to_dictionary()


@pytest.mark.parametrize("damage", ["curve", "score", "parameter", "run", "file", "experiment", "schema", "training"])
def test_whatever_is_missing_is_seen_and_written(damage: str, filled) -> None:
    database = filled.path / "mlflow.db"
    changes = {
        "score": "DELETE FROM {} WHERE key LIKE 'tiny/%'",
        "parameter": "DELETE FROM params WHERE key = 'max_length'",
        "run": "UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'cls / tiny'",
        "experiment": "UPDATE experiments SET name = 'other' WHERE name = 'lmk-analyze'",
        "schema": "UPDATE alembic_version SET version_num = 'unknown'",
    }
    if damage == "curve":
        CellRecorder(training_cell(filled.path, f"{1:012x}").folder).metrics({"train/loss": 0.125}, 3)
    elif damage == "file":
        database.unlink()
    elif damage == "training":
        filled.grid("two", [("mean", 0, filled.train(2), {})])
    else:
        with sqlite3.connect(database) as held:
            for table in ("metrics", "latest_metrics"):
                changed = held.execute(changes[damage].format(table)).rowcount
                assert changed or table == "latest_metrics"
    if damage == "schema":
        with pytest.raises(NeedsMlflow):
            SqliteReader(database)
        with sqlite3.connect(database) as held:
            held.execute("UPDATE alembic_version SET version_num = ?", newest_schema())
        return
    printed, imported = lmk("sync", root=filled.path, uri=None)
    assert imported
    assert "0 created, 0 updated" not in printed or damage == "experiment"
    printed, imported = lmk("sync", root=filled.path, uri=None)
    assert not imported
    assert "0 created, 0 updated" in printed


def test_the_newest_schema_is_the_one_that_mlflow_makes(filled) -> None:
    from lmk_experiments.mirror.database import _scripts

    assert newest_schema() == _scripts().get_heads()
