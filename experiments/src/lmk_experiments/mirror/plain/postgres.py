"""Runs out of a PostgreSQL database that the installed MLflow has made."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from lmk_experiments.mirror.address.postgres import CONNECT_SECONDS
from lmk_experiments.mirror.plain.sql import Ask, SqlReader


class PostgresReader(SqlReader):
    """Reads a database, by the driver that its address names.

    Raises:
        NeedsMlflow: it has not the schema of the MLflow that is installed.
        OSError: also of its methods, where it cannot be read.
    """

    def __init__(self, uri: str) -> None:
        import sqlalchemy
        from sqlalchemy.pool import NullPool

        super().__init__()
        # Whatever is read in one transaction is of one moment, though others write.
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        waiting = {"connect_timeout": CONNECT_SECONDS}
        self._engine = sqlalchemy.create_engine(
            uri, poolclass=NullPool, connect_args=waiting, execution_options=options
        )
        self._check("the database")

    @contextlib.contextmanager
    def _open(self) -> Generator[Ask]:
        import sqlalchemy
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._engine.connect() as database:
                yield lambda asked, words: database.execute(sqlalchemy.text(asked), dict(words)).all()
        except SQLAlchemyError as error:
            # Drivers quote addresses with their passwords: only what kind of error it was is told.
            raise OSError(f"the database cannot be read: {type(error).__name__}") from None
