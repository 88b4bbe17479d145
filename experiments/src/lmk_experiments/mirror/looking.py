"""A sync that only looks: where everything is in the store already, MLflow need not be imported at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from lmk_experiments.mirror.address import is_postgres, take_login
from lmk_experiments.mirror.identity import prefix_in_use, root_identity
from lmk_experiments.mirror.moved import is_moved
from lmk_experiments.mirror.plain import TROUBLE, NeedsMlflow, PlainClient, PostgresReader, ServerReader, SqliteReader
from lmk_experiments.mirror.store import (
    Store,
    database_file,
    experiment_names,
    key_of,
    tracking_uri,
    without_credentials,
)
from lmk_experiments.mirror.writer import Writer

if TYPE_CHECKING:
    from mlflow import MlflowClient


def look_at(root: Path, uri: str | None = None) -> Store | None:
    """The store to be read without MLflow; ``None`` where it has to be opened by MLflow, for whatever reason.

    It is for looking only: everything that would write raises ``NeedsMlflow``.
    """
    if "mlflow" in sys.modules:
        return None
    chosen = tracking_uri(root, uri)
    if is_moved(root, chosen):
        return None  # a sync sets that right first
    try:
        client = _reader(chosen)
        chosen = take_login(chosen, {})
        prefix, identity = prefix_in_use(root.resolve(), key_of(root, chosen), root_identity(root))
        names = experiment_names(prefix)
        held = client.experiments(names.values())
        experiments = {kind: held[name] for kind, name in names.items()}
    except (NeedsMlflow, *TROUBLE):
        return None  # it is opened as ever, and what is wrong with it is said then
    return Store(chosen, without_credentials(chosen), cast("MlflowClient", client), experiments, identity)


def _reader(uri: str) -> PlainClient:
    file = database_file(uri)
    if file is not None:
        return SqliteReader(file)
    if is_postgres(uri):
        return PostgresReader(uri)
    if uri.startswith("http"):
        return ServerReader(uri)
    raise NeedsMlflow(uri.partition("://")[0])


class Looker(Writer):
    """Writes nothing: what it would write is a reason to call MLflow."""

    def may_write(self) -> NoReturn:
        raise NeedsMlflow("something is to be written")
