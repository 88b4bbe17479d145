from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmk_experiments.mirror import StoreError, open_store, sync, ui_command

_OPEN = "import sys, pathlib; from lmk_experiments.mirror import open_store; open_store(pathlib.Path(sys.argv[1]))"


def _beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("mlflow.db*") if not path.name.endswith(".lock"))


def _size(folder: Path) -> int:
    sizes = []
    for path in folder.glob("mlflow.db*"):
        with contextlib.suppress(FileNotFoundError):  # journals come and go
            sizes.append(path.stat().st_size if path.suffix != ".lock" else 0)
    return max(sizes, default=0)


def _set_version(file: Path, version: str | None) -> None:
    with sqlite3.connect(file) as database:
        if version is None:
            database.execute("DROP TABLE alembic_version")
        else:
            database.execute("UPDATE alembic_version SET version_num = ?", (version,))
    database.close()


def _version(file: Path) -> str:
    with sqlite3.connect(file) as database:
        (version,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    database.close()
    return version


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A whole database. It is copied to where this process has opened none: MLflow looks at each address once."""
    folder = tmp_path_factory.mktemp("whole")
    open_store(folder)
    return folder / "mlflow.db"


def _earlier(version: str) -> str:
    from lmk_experiments.mirror.database import _scripts

    return _scripts().get_revision(version).down_revision


def test_a_creation_that_is_killed_leaves_nothing_behind_that_matters(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", _OPEN, str(tmp_path)], stdout=-3, stderr=-3)
    deadline = time.monotonic() + 120
    while not _size(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait(60)
    assert [name[: len("mlflow.db.new-")] for name in _beside(tmp_path) if "journal" not in name] == ["mlflow.db.new-"]
    store = open_store(tmp_path)
    assert sorted(store.experiments) == ["analysis", "evaluation", "training"]
    assert store.warnings == ()
    assert _beside(tmp_path) == ["mlflow.db"]


def test_an_empty_file_is_no_database_yet(tmp_path):
    (tmp_path / "mlflow.db").touch()
    (tmp_path / "mlflow.db-journal").write_bytes(b"of a database that was never written")
    assert open_store(tmp_path).warnings == ()
    assert _beside(tmp_path) == ["mlflow.db"]


@pytest.mark.parametrize("noted", [True, False])
def test_a_half_migrated_database_of_the_root_is_made_anew(two_rows, noted):
    sync(two_rows.path)
    file = two_rows.path / "mlflow.db"
    whole = _version(file)
    _set_version(file, _earlier(whole) if noted else None)
    (two_rows.path / "mlflow.db.broken-1").write_text("an earlier one")
    report = sync(two_rows.path)
    assert report.created == 5
    assert len(report.warnings) == 1
    assert "half-made by a sync that was cut short" in report.warnings[0]
    assert "was moved to mlflow.db.broken-2" in report.warnings[0]
    assert _beside(two_rows.path) == ["mlflow.db", "mlflow.db.broken-1", "mlflow.db.broken-2"]
    assert (two_rows.path / "mlflow.db.broken-1").read_text() == "an earlier one"
    assert _version(file) == whole
    again = sync(two_rows.path)
    assert (again.writes, again.warnings) == (0, [])


def test_the_ui_says_that_a_database_was_made_anew(tmp_path, free_port, whole):
    shutil.copy(whole, tmp_path)
    _set_version(tmp_path / "mlflow.db", None)
    assert "mlflow.db.broken-1" in ui_command(tmp_path, port=free_port).warnings[0]


def test_a_database_of_another_version_of_mlflow_stays(tmp_path, whole):
    shutil.copy(whole, tmp_path)
    _set_version(tmp_path / "mlflow.db", "ffffffffffff")
    with pytest.raises(StoreError, match=r"was written by another version of MLflow and could not be upgraded"):
        open_store(tmp_path)
    assert _beside(tmp_path) == ["mlflow.db", "mlflow.db.before-upgrade"]
    assert _version(tmp_path / "mlflow.db") == "ffffffffffff"


def test_a_half_migrated_database_elsewhere_stays(tmp_path, whole):
    elsewhere = tmp_path / "elsewhere" / "mlflow.db"
    uri = f"sqlite:///{elsewhere}"
    elsewhere.parent.mkdir()
    shutil.copy(whole, elsewhere)
    _set_version(elsewhere, _earlier(_version(elsewhere)))
    with pytest.raises(StoreError, match=r"could not be upgraded"):
        open_store(tmp_path, uri)
    assert _beside(elsewhere.parent) == ["mlflow.db", "mlflow.db.before-upgrade"]


def test_an_older_whole_database_of_the_root_is_upgraded_and_kept(tmp_path):
    older = _older_database(tmp_path / "mlflow.db")
    store = open_store(tmp_path)
    assert store.warnings == ()
    assert _beside(tmp_path) == ["mlflow.db", "mlflow.db.before-upgrade"]
    assert _version(tmp_path / "mlflow.db.before-upgrade") == older
    assert _version(tmp_path / "mlflow.db") != older
    assert store.client.get_experiment_by_name("kept") is not None


def _older_database(file: Path) -> str:
    """A database as MLflow made it some versions ago, with an experiment in it."""
    import sqlalchemy
    from alembic import command
    from mlflow.store.db.utils import InitialBase, _get_alembic_config

    from lmk_experiments.mirror.database import _scripts

    config = _get_alembic_config(f"sqlite:///{file}")
    older = [script.revision for script in _scripts().walk_revisions()][8]
    engine = sqlalchemy.create_engine(f"sqlite:///{file}")
    InitialBase.metadata.create_all(engine)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, older)
    engine.dispose()
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO experiments (name, lifecycle_stage) VALUES ('kept', 'active')")
    database.close()
    return older
