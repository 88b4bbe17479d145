"""Runs out of an SQLite file that the installed MLflow has made."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

from lmk_experiments.mirror.plain.sql import Ask, SqlReader


class SqliteReader(SqlReader):
    """Reads a file.

    Raises:
        NeedsMlflow: it has not the schema of the MLflow that is installed.
        sqlite3.Error: it cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._check(str(file))

    @contextlib.contextmanager
    def _open(self) -> Generator[Ask]:
        place = f"file:{quote(str(self.file))}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, isolation_level=None)) as database:
            database.execute("BEGIN")
            yield lambda asked, words: database.execute(asked, dict(words)).fetchall()
