"""The command that shows a root's store in a browser."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.mirror.store import artifact_root, open_store, tracking_uri

_ENVIRONMENT = {
    # Job runners are for language-model judges: without them the server is 2 processes instead of 10.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


class PortInUseError(ValueError):
    """Another program listens on the port."""


@dataclass(frozen=True)
class UiCommand:
    """How to show the store.

    Attributes:
        url: where the browser finds it.
        argv: the server to start, empty where the store is a server that runs already.
        env: the environment to start it in.
    """

    url: str
    argv: list[str]
    env: dict[str, str]


def ui_command(root: Path, *, uri: str | None = None, host: str = "127.0.0.1", port: int = 5000) -> UiCommand:
    """The MLflow server on this root's store, for this machine only by default.

    The database is created or upgraded first, so that the server and a running sync never race for it.

    Raises:
        PortInUseError: ``port`` is taken.
        StoreError: the store cannot be used.
    """
    chosen = tracking_uri(root, uri)
    if chosen.startswith("http"):
        return UiCommand(chosen, [], {})
    _check_free(host, port)
    open_store(root, chosen)
    artifacts = artifact_root(root, chosen)
    assert artifacts is not None, "only a server chooses the place of artifacts itself"
    options = {
        "--default-artifact-root": artifacts.as_uri(),
        "--artifacts-destination": artifacts.as_uri(),
        "--host": host,
        "--port": str(port),
        "--workers": "1",
    }
    argv = [sys.executable, "-m", "mlflow", "server", *(word for option in options.items() for word in option)]
    # Not an argument: an address with a password must not show in the list of processes.
    store = {"MLFLOW_BACKEND_STORE_URI": chosen}
    return UiCommand(f"http://{host}:{port}", argv, {**os.environ, **_ENVIRONMENT, **store})


def _check_free(host: str, port: int) -> None:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise PortInUseError(
            f"port {port} on {host} cannot be used ({error.strerror}); choose another: --port"
        ) from None
