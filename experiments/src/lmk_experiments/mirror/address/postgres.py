"""PostgreSQL: its driver, and its schema made by one process at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from importlib.util import find_spec

from lmk_experiments.mirror.address.trouble import StoreError

EXTRA = "lmk-experiments[postgresql]"
_DRIVERS = ("psycopg", "psycopg2")
_LOCK = 0x6C6D6B  # "lmk": one number for all of a database
CONNECT_SECONDS = 30


def is_postgres(uri: str) -> bool:
    """Whether this is the address of a PostgreSQL database."""
    return uri.partition("://")[0].partition("+")[0] in ("postgresql", "postgres")


def with_driver(uri: str) -> str:
    """The address with the driver that is installed, which SQLAlchemy does not look for.

    ``postgresql://`` is psycopg (3) to SQLAlchemy 2.1 and psycopg2 to 2.0; ``postgres://`` it does not know.
    An address that names its driver is left as it is.

    Raises:
        StoreError: no driver is installed.
    """
    scheme, separator, rest = uri.partition("://")
    if scheme not in ("postgresql", "postgres"):
        return uri
    driver = next((name for name in _DRIVERS if find_spec(name) is not None), None)
    if driver is None:
        raise StoreError(f"PostgreSQL needs a driver, and none is installed: pip install '{EXTRA}'")
    return f"postgresql+{driver}{separator}{rest}"


@contextlib.contextmanager
def alone_in(uri: str, *, wait_seconds: float) -> Generator[str | None]:
    """Be the only one, of all machines, that makes or changes the schema of this database.

    MLflow itself locks a file of one machine's folder for temporary files. The lock lasts as long as a transaction, so
    that it also holds through a pooler of connections, and is gone with the process.

    Yields:
        The version of the tables that are there, or ``None`` where there are none.

    Raises:
        StoreError: another process holds it for longer than ``wait_seconds``.
        Exception: whatever the driver raises where the database cannot be reached.
    """
    import sqlalchemy
    import sqlalchemy.exc
    import sqlalchemy.pool

    # MLflow tries to connect for most of an hour before it says that there is nobody.
    engine = sqlalchemy.create_engine(
        uri, poolclass=sqlalchemy.pool.NullPool, connect_args={"connect_timeout": CONNECT_SECONDS}
    )
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"SET LOCAL lock_timeout = '{max(1, int(wait_seconds * 1000))}ms'"))
        try:
            connection.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        except sqlalchemy.exc.OperationalError as error:
            if "lock timeout" not in str(error):
                raise
            raise StoreError(
                f"another process has been making or upgrading the tables for {wait_seconds:.0f} seconds; try again"
            ) from None
        noted = connection.execute(sqlalchemy.text("SELECT to_regclass('alembic_version')")).scalar() is not None
        yield connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version")).scalar() if noted else None
