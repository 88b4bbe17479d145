"""The ``mlflow server`` of a team: what has to be said so that nodes of a cluster can use it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.mirror.address import explain, is_postgres, take_login, with_driver, without_credentials
from lmk_experiments.mirror.lock import locked
from lmk_experiments.mirror.store import StoreError, database_file, make_tables, quiet_mlflow
from lmk_experiments.mirror.ui import check_free
from lmk_experiments.serving.hosts import EVERYWHERE, allowed_hosts, is_loopback, names_of_this_machine
from lmk_experiments.serving.users import login_settings

DATABASE = "MLFLOW_BACKEND_STORE_URI"
"""MLflow's own variable for a server's database: an address with a password never stands in a command."""
PROXIED = "mlflow-artifacts:/"
"""Where artifacts are to a client: with the server, which alone knows their folder."""
_ENVIRONMENT = {
    # Job runners are for language-model judges: without them the server is 7 processes instead of 15.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # A server has no server behind it; what is set for `lmk` in this shell is not for it.
    "MLFLOW_TRACKING_URI": "",
    "MLFLOW_TRACKING_USERNAME": "",
    "MLFLOW_TRACKING_PASSWORD": "",
}
_POSTGRES_CONNECTIONS = 92
"""Of the 100 that PostgreSQL takes by default: what all workers may hold together."""
_LEAST_CONNECTIONS = 15
"""Of a worker, SQLAlchemy's own default."""
_POOL_SIZE, _MAX_OVERFLOW = "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW"


def connections(workers: int) -> dict[str, str]:
    """How many connections to PostgreSQL each worker may hold at most.

    A request holds one while it waits for a second. With SQLAlchemy's 15 a worker that a dozen syncs write to at once
    has every connection in such a request, and all of them wait for half a minute.

    Raises:
        ValueError: there are too many workers for each to have 15, and neither variable is set.
    """
    kept = 5
    share = _POSTGRES_CONNECTIONS // workers
    if share < _LEAST_CONNECTIONS and not any(name in os.environ for name in (_POOL_SIZE, _MAX_OVERFLOW)):
        fit = _POSTGRES_CONNECTIONS // _LEAST_CONNECTIONS
        raise ValueError(
            f"--workers {workers}: at most {fit} fit in the 100 connections that PostgreSQL takes by default, "
            f"each with {_LEAST_CONNECTIONS}; where yours takes more, set {_POOL_SIZE} and {_MAX_OVERFLOW}, "
            "whose sum is what a worker may hold"
        )
    most = max(_LEAST_CONNECTIONS, share)
    sizes = {_POOL_SIZE: kept, _MAX_OVERFLOW: most - kept}
    return {name: os.environ.get(name, str(size)) for name, size in sizes.items()}


@dataclass(frozen=True)
class ServerCommand:
    """How to start the server.

    Attributes:
        argv: the command; it holds no secret.
        settings: variables that it needs besides those of this process; some are secret.
        address: its database, without credentials.
        near: an address by which this machine reaches it.
        port: where it listens.
        urls: where nodes find it, by each of its names; the first is the one to give away.
        login: whether it asks for one.
        open_to_all: whether anyone who reaches this machine reads and writes everything.
        notes: what the person who starts it has to know.
    """

    argv: list[str]
    settings: dict[str, str]
    address: str
    near: str
    port: int
    urls: list[str]
    login: bool
    open_to_all: bool
    notes: list[str]

    def environment(self) -> dict[str, str]:
        """All variables of the server's process."""
        return {**os.environ, **self.settings}

    def text(self) -> str:
        """The command as it can be typed, secrets by their names only."""
        secret = (DATABASE, "MLFLOW_AUTH_ADMIN_PASSWORD", "MLFLOW_FLASK_SERVER_SECRET_KEY")
        shown = [f"{name}={shlex.quote(value)}" for name, value in self.settings.items() if name not in secret]
        hidden = [f"# {name} has to be set as well" for name in secret if name in self.settings]
        command = shlex.join(["mlflow", *self.argv[3:]]).replace(" --", " \\\n  --")
        return "\n".join([*hidden, f"{' '.join(shown)} \\\n{command}"])


def server_command(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 5000,
    workers: int = 4,
    names: Sequence[str] = (),
    login: bool = False,
    admin: str = "admin",
    permission: str = "EDIT",
    draft: bool = False,
) -> ServerCommand:
    """The server that keeps artifacts (and, without a database of yours, everything) in ``folder``.

    Args:
        host: where it listens; every other machine needs ``0.0.0.0``.
        names: further names that machines call this one by.
        login: whether it asks for user and password.
        permission: what a user may do with experiments of others; a team that shares them needs ``EDIT``.
        draft: only to be shown: nothing is written, and the port may be taken.

    Raises:
        ValueError: an option has a wrong value.
        PortInUseError: the port is taken.
        ServeError, StoreError: it cannot be started like this.
    """
    if workers < 1:
        raise ValueError(f"--workers {workers}: at least 1 is needed")
    if not draft:
        check_free(host, port)
    folder = folder.expanduser().resolve()
    uri = backend_uri(folder)
    argv = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", str(workers)]
    argv += ["--allowed-hosts", allowed_hosts(names)]
    argv += ["--serve-artifacts", "--artifacts-destination", (folder / "artifacts").as_uri()]
    settings, notes = {**_ENVIRONMENT, DATABASE: uri}, []
    if is_postgres(uri):
        settings |= connections(workers)
    if login:
        users, notes = login_settings(folder, admin, permission, draft=draft)
        settings |= users
        argv += ["--app-name", "basic-auth"]
    wide = host == EVERYWHERE
    local = is_loopback(host)
    called = [host] if not wide else [*names, *names_of_this_machine()] or ["127.0.0.1"]
    urls = [f"http://{name}:{port}" for name in dict.fromkeys(called) if "*" not in name]
    near = "127.0.0.1" if wide else host
    return ServerCommand(argv, settings, without_credentials(uri), near, port, urls, login, not (local or login), notes)


def backend_uri(folder: Path) -> str:
    """The server's database: of the environment, else SQLite in ``folder``.

    Raises:
        StoreError: the address is of a server, or of no database that MLflow knows.
    """
    uri = os.environ.get(DATABASE) or f"sqlite:///{folder / 'mlflow.db'}"
    if uri.partition("://")[0].partition("+")[0] not in ("sqlite", "postgresql", "postgres", "mysql", "mssql"):
        shown = without_credentials(take_login(uri, {}))
        raise StoreError(
            f"{DATABASE} is {shown!r}, which is no database; valid: postgresql://USER@HOST/NAME, sqlite:///FILE"
        )
    return with_driver(uri)


def make_ready(command: ServerCommand, *, upgrade: bool, wait_seconds: float = 60.0) -> None:
    """Make the folder and the database's tables, before any worker starts.

    Raises:
        StoreError: the database cannot be used, or has the tables of another MLflow and ``upgrade`` was not asked for.
    """
    quiet_mlflow()
    uri = command.settings[DATABASE]
    if is_postgres(uri):
        make_tables(uri, PROXIED, wait_seconds=wait_seconds, upgrade=upgrade)
        return
    file = database_file(uri)
    if file is not None:
        from lmk_experiments.mirror.database import create, is_empty

        with locked(file.with_name(f"{file.name}.lock"), wait_seconds=wait_seconds):
            if is_empty(file):
                create(file, PROXIED)


def foreign_artifacts(command: ServerCommand) -> list[str]:
    """Experiments whose artifacts are in a folder, which a client on another machine would look for on its own disk."""
    from mlflow import MlflowClient

    try:
        found = MlflowClient(command.settings[DATABASE]).search_experiments(max_results=1000)
    except Exception as error:  # every driver has its own errors
        reason = explain(error, command.address, command.settings[DATABASE])
        raise StoreError(f"cannot use the database {command.address}: {reason}") from error
    return [one.name for one in found if (one.artifact_location or "").startswith(("file:", "/", "./"))]
