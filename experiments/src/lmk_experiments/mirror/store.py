"""Where the mirror stands: the store's address, its database and its experiments."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lmk_experiments.errors import WorkFailed
from lmk_experiments.mirror.address import (
    StoreError,
    check_http,
    explain,
    is_postgres,
    take_login,
    with_driver,
    without_credentials,
)
from lmk_experiments.mirror.address.postgres import alone_in
from lmk_experiments.mirror.database import create, is_empty, mend
from lmk_experiments.mirror.identity import RootIdentity, prefix_in_use, root_identity
from lmk_experiments.mirror.lock import locked

if TYPE_CHECKING:
    from mlflow import MlflowClient

Kind = Literal["training", "evaluation", "analysis"]
KINDS: tuple[Kind, ...] = ("training", "evaluation", "analysis")
EXPERIMENTS: dict[Kind, str] = {"training": "lmk-train", "evaluation": "lmk-evaluate", "analysis": "lmk-analyze"}
ROOT_ID = "lmk.root_id"
"""The tag that says which root a run is of."""
DATABASE = "mlflow.db"
ARTIFACTS = "mlflow-artifacts"
OWN = "sqlite:///<root>/mlflow.db"
"""How a root's own database is written down: it stays the same where the root is moved."""

_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https")
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # The defaults hold a caller for four minutes when a server is down; the records lose nothing by giving up.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
}


@dataclass(frozen=True)
class Store:
    """An open MLflow store.

    Attributes:
        uri: the tracking address; that of a database may have a password: never write it down.
        address: the same without credentials.
        client: MLflow's client for it.
        experiments: the experiment's id for each kind of cell.
        root: whose runs are written and read.
        warnings: what had to be done to open it.
    """

    uri: str
    address: str
    client: MlflowClient
    experiments: Mapping[Kind, str]
    root: RootIdentity
    warnings: tuple[str, ...] = ()


def experiment_names(prefix: str) -> dict[Kind, str]:
    """What the experiments are called, after a prefix where there is one."""
    return {kind: f"{prefix}/{EXPERIMENTS[kind]}" if prefix else EXPERIMENTS[kind] for kind in KINDS}


def default_uri(root: Path) -> str:
    """The store of a root that names none: ``sqlite:///<root>/mlflow.db``."""
    return f"sqlite:///{root.resolve() / DATABASE}"


def tracking_uri(root: Path, uri: str | None = None) -> str:
    """The store in use: ``uri``, else ``LMK_STORE``, else ``MLFLOW_TRACKING_URI``, else the root's own database.

    A path that ends in ``.db`` is taken for an SQLite file, and SQLite paths are made absolute.

    Raises:
        StoreError: an address that MLflow no longer takes (a folder of files), or of a kind unknown to it.
    """
    chosen = uri or os.environ.get("LMK_STORE") or os.environ.get("MLFLOW_TRACKING_URI") or default_uri(root)
    if "://" not in chosen and chosen.endswith(".db"):
        chosen = f"sqlite:///{chosen}"
    if chosen.startswith("sqlite:///"):
        return f"sqlite:///{Path(chosen.removeprefix('sqlite:///')).expanduser().resolve()}"
    chosen = with_driver(chosen)
    scheme = chosen.partition("://")[0].partition("+")[0] if "://" in chosen else ""
    if scheme.startswith("http"):
        check_http(chosen)
    if scheme not in _SCHEMES:
        raise StoreError(
            f"{without_credentials(chosen)!r} is not a store that MLflow can write to (folders of files are in "
            f"maintenance mode); valid: a path ending in .db, or an address that starts with {', '.join(_SCHEMES)}. "
            "It comes from --store, LMK_STORE or MLFLOW_TRACKING_URI; unset them for the root's own database"
        )
    return chosen


def key_of(root: Path, uri: str) -> str:
    """How a store is written down in files of the root: its address without credentials."""
    return OWN if uri == default_uri(root) else without_credentials(uri)


def artifact_root(root: Path, uri: str) -> Path | None:
    """Where artifacts go: beside the SQLite file, else under the root; ``None`` where a server decides."""
    if uri.startswith("http"):
        return None
    return (database_file(uri) or root.resolve() / DATABASE).parent / ARTIFACTS


def database_file(uri: str) -> Path | None:
    """The file of an SQLite store, else ``None``."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def quiet_mlflow() -> None:
    """Import MLflow without its telemetry, its chatter, its progress bars and its minutes of retries.

    What the user has set in the environment stays.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import mlflow  # noqa: F401  the import sets up its loggers, so they are quietened after it

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)


def open_store(root: Path, uri: str | None = None, *, wait_seconds: float = 30.0) -> Store:
    """Open the store, creating or upgrading its database and creating the experiments where they are missing.

    An SQLite database is created under a file lock: several processes that open a fresh one at once break it. The
    root's own one is made anew where its migration was cut short; the store's ``warnings`` say so.

    Args:
        wait_seconds: how long to wait for another process that is creating it.

    Raises:
        StoreError: it cannot be reached, upgraded or written.
        LockedError: another process is creating it and does not end.
    """
    chosen = take_login(tracking_uri(root, uri))
    quiet_mlflow()
    try:
        root.mkdir(parents=True, exist_ok=True)
        identity = root_identity(root)
        prefix, identity = prefix_in_use(root.resolve(), key_of(root, chosen), identity)
    except OSError as error:
        raise StoreError(f"cannot write into {root}: {error}; the store has to know which root it is of") from error
    file = database_file(chosen)
    if file is None:
        if is_postgres(chosen):
            make_tables(chosen, str(artifact_root(root, chosen)), wait_seconds=wait_seconds)
        return _open(root, chosen, prefix, identity)
    try:
        with locked(file.with_name(f"{file.name}.lock"), wait_seconds=wait_seconds):
            return _open(root, chosen, prefix, identity)
    except OSError as error:
        raise StoreError(f"cannot write beside {file}: {error}; LMK_STORE puts the database elsewhere") from error


def make_tables(uri: str, artifacts: str, *, wait_seconds: float = 30.0, upgrade: bool = False) -> None:
    """Make MLflow's tables in a PostgreSQL database where they are missing, one process at a time.

    Args:
        artifacts: where MLflow puts artifacts of experiments that name no place.
        upgrade: bring tables of an older MLflow to this one's; else they are an error. Back the database up first.

    Raises:
        StoreError: the database cannot be reached or has the tables of another MLflow, or another process is at it and
            does not end.
    """
    from mlflow.store.db.utils import _get_latest_schema_revision, _upgrade_db, create_sqlalchemy_engine
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    try:
        with alone_in(uri, wait_seconds=wait_seconds) as version:
            # MLflow itself refuses some older tables, and upgrades others without a word.
            if version not in (None, _get_latest_schema_revision()):
                if not upgrade:
                    _upgrade(uri)
                _upgrade_db(create_sqlalchemy_engine(uri))
            SqlAlchemyStore(uri, artifacts)
    except WorkFailed:
        raise
    except Exception as error:
        raise _unusable(uri, error) from error


def _unusable(uri: str, error: Exception) -> StoreError:
    address = without_credentials(uri)
    return StoreError(
        f"cannot use the MLflow store {address}: {explain(error, address, uri)}. Nothing is lost: the records are "
        "complete, and `lmk sync` fills the gap later. Mend that, or point LMK_STORE at another store, or unset it for "
        "the root's own database"
    )


def _open(root: Path, uri: str, prefix: str, identity: RootIdentity) -> Store:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        warnings = _ready(root, uri)
        try:
            client = MlflowClient(uri)
            client.search_experiments(max_results=1)
        except MlflowException as error:
            if "out-of-date database schema" not in str(error):
                raise
            _upgrade(uri)
            client = MlflowClient(uri)
        artifacts = artifact_root(root, uri)
        names = experiment_names(prefix)
        experiments = {kind: _experiment(client, names[kind], artifacts) for kind in KINDS}
        return Store(uri, without_credentials(uri), client, experiments, identity, warnings)
    except StoreError:
        raise
    except Exception as error:  # every driver has its own errors, and all mean the same here
        raise _unusable(uri, error) from error


def _ready(root: Path, uri: str) -> tuple[str, ...]:
    """See that an SQLite file is there and whole, and say what had to be done; only the root's own one is mended."""
    file, artifacts = database_file(uri), artifact_root(root, uri)
    if file is None or artifacts is None:
        return ()
    own = uri == default_uri(root)
    if is_empty(file) if own else not file.exists():
        create(file, artifacts)
    elif own and (done := mend(file, artifacts)) is not None:
        return (done,)
    return ()


def _upgrade(uri: str) -> None:
    """Bring an older SQLite file to this MLflow's schema, keeping a copy of it."""
    file = database_file(uri)
    if file is None:
        raise StoreError(
            f"{without_credentials(uri)} has the schema of another version of MLflow; whoever looks after it can back "
            "it up and run `lmk serve --upgrade` or `mlflow db upgrade`, or use the version that made it"
        )
    kept = file.with_name(f"{file.name}.before-upgrade")
    shutil.copy2(file, kept)
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", uri]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        raise StoreError(
            f"{file} was written by another version of MLflow and could not be upgraded: {reason}. It is kept as "
            f"{kept.name}. Install the MLflow that made it, or move it away: `lmk sync` makes it anew from the records"
        )


def _experiment(client: MlflowClient, name: str, artifacts: Path | None) -> str:
    """The id of experiment ``name``, created where it is missing."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name, artifact_location=None if artifacts is None else artifacts.as_uri())
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)
    if found is None or found.lifecycle_stage != "active":
        identity = "?" if found is None else found.experiment_id
        raise StoreError(
            f"experiment {name!r} was deleted in this store; `mlflow experiments restore --experiment-id {identity}` "
            "brings it back"
        )
    return found.experiment_id
