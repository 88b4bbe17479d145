"""A root's own SQLite file: made whole or not at all, and made anew where it is beyond repair."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

_NEW = "new-"
_SIDES = ("", "-journal", "-wal", "-shm")
"""SQLite keeps up to three files beside a database, and each belongs to it."""
_FULL = "database or disk is full"


def create(file: Path, artifacts: Path | str) -> None:
    """Make MLflow's database at ``file``, where there is none or an empty one, under another name until it is complete.

    MLflow's schema takes some forty migrations, and a file that was left in the middle of them can never be opened
    again. Needs the file's lock: what an earlier call left behind is deleted.

    Args:
        artifacts: the folder, or the address, of artifacts of experiments that name no place.

    Raises:
        Exception: whatever MLflow's driver raises; ``file`` is as it was.
    """
    with _draft(file) as draft:
        _migrate_fresh(draft, artifacts)
        if is_empty(file):
            for side in _SIDES[1:]:
                # SQLite would take a journal that outlived its database for the new one's.
                Path(f"{file}{side}").unlink(missing_ok=True)
            _rename(draft, file)


def is_empty(file: Path) -> bool:
    """Whether there is nothing at ``file``: no file, or one without a byte that no journal belongs to."""
    return not file.exists() or (file.stat().st_size == 0 and not file.with_name(f"{file.name}-wal").exists())


def mend(file: Path, artifacts: Path) -> str | None:
    """Bring the root's own database to this MLflow's schema, or make it anew where its migration was cut short.

    Both happen on another file that takes the name when it is complete. Nothing is done, and MLflow left to say what is
    wrong, where the file cannot be read or another MLflow's schema is in it. The old file is kept:
    as ``mlflow.db.before-upgrade``, or as ``mlflow.db.broken-N``.

    Returns:
        What was done about a broken database, or ``None``.

    Raises:
        Exception: whatever MLflow's driver raises; ``file`` is as it was.
    """
    try:
        revision = _revision(file)
    except sqlite3.Error:
        return None
    scripts = _scripts()
    if revision in scripts.get_heads() or not (revision is None or _is_known(scripts, revision)):
        return None
    with _draft(file) as draft:
        reason = "it has no version" if revision is None else _upgraded_copy(file, draft)
        if reason is None:
            shutil.copy2(file, file.with_name(f"{file.name}.before-upgrade"))
            _rename(draft, file)
            _disconnect(file)
            return None
    with _draft(file) as draft:
        # Where this fails, the disk or MLflow is at fault and not the old file, which stays where it is.
        _migrate_fresh(draft, artifacts)
        kept = _free_name(file)
        _rename(file, kept)
        _rename(draft, file)
        _disconnect(file)
    return (
        f"{file} was left half-made by a sync that was cut short, and MLflow cannot mend it ({reason}): "
        f"it was moved to {kept.name}, and `lmk sync` fills a new one from the records"
    )


@contextlib.contextmanager
def _draft(file: Path) -> Generator[Path]:
    """A new name beside ``file``; what is left at this or an earlier such name is deleted, also when interrupted."""
    for left in file.parent.glob(f"{file.name}.{_NEW}*"):
        left.unlink(missing_ok=True)
    # Never the same name twice: MLflow keeps connections by address for as long as its process lives.
    draft = file.with_name(f"{file.name}.{_NEW}{uuid.uuid4().hex[:8]}")
    try:
        yield draft
    finally:
        for side in _SIDES:
            Path(f"{draft}{side}").unlink(missing_ok=True)


def _migrate_fresh(draft: Path, artifacts: Path | str) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    # Closed before it is renamed, so that SQLite's files beside it are gone.
    place = artifacts if isinstance(artifacts, str) else artifacts.as_uri()
    SqlAlchemyStore(f"sqlite:///{draft}", place).engine.dispose()


def _disconnect(file: Path) -> None:
    """Close what this process has open: MLflow keeps connections, and they would go on writing to the old file."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    engine = getattr(SqlAlchemyStore, "_engine_map", {}).get(f"sqlite:///{file}")
    if engine is not None:
        engine.dispose()


def _upgraded_copy(file: Path, draft: Path) -> str | None:
    """Copy ``file`` and bring the copy to this MLflow's schema. Returns why that cannot be done, or ``None``.

    Raises:
        OSError, sqlite3.Error: it cannot be copied, or the disk is full.
    """
    with contextlib.closing(sqlite3.connect(file)) as source, contextlib.closing(sqlite3.connect(draft)) as target:
        source.backup(target)
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{draft}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a list, and no shell
    if not ended.returncode:
        return None
    if _FULL in ended.stderr:
        raise OSError(f"{file} cannot be upgraded: {_FULL}")
    errors = [line.strip() for line in ended.stderr.splitlines() if "Error" in line]
    return (errors or ended.stderr.strip().splitlines() or ["no message"])[-1]


def _revision(file: Path) -> str | None:
    """The version of the schema that is noted in ``file``, or ``None`` where none was."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
            return None
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


@cache
def _scripts() -> ScriptDirectory:
    """The migrations of the MLflow that is installed."""
    import mlflow
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(Path(mlflow.__file__).parent / "store" / "db_migrations"))


def _is_known(scripts: ScriptDirectory, revision: str) -> bool:
    from alembic.util import CommandError

    try:
        return scripts.get_revision(revision) is not None
    except CommandError:
        return False


def _free_name(file: Path) -> Path:
    number = 1
    while (kept := file.with_name(f"{file.name}.broken-{number}")).exists():
        number += 1
    return kept


def _rename(source: Path, target: Path) -> None:
    """Rename a database with the files beside it, the database itself last."""
    for side in reversed(_SIDES):
        if Path(f"{source}{side}").exists():
            Path(f"{source}{side}").replace(f"{target}{side}")
