"""The command that shows a root's store in a browser."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.mirror.store import artifact_root, open_store, tracking_uri, without_credentials

_ENVIRONMENT = {
    # Job runners are for language-model judges: without them the server is 2 processes instead of 10.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


_GRACE_SECONDS = 5.0
"""How long the server may take to end before it is killed: an open browser keeps it from ending by itself."""
_PORTS = range(1, 65536)


class PortInUseError(ValueError):
    """Another program listens on the port."""


@dataclass(frozen=True)
class UiCommand:
    """How to show the store.

    Attributes:
        url: where the browser finds it.
        argv: the server to start, empty where the store is a server that runs already.
        env: the environment to start it in.
        warnings: what had to be done to open the store.
    """

    url: str
    argv: list[str]
    env: dict[str, str]
    warnings: tuple[str, ...] = ()


def ui_command(root: Path, *, uri: str | None = None, host: str = "127.0.0.1", port: int = 5000) -> UiCommand:
    """The MLflow server on this root's store, for this machine only by default.

    The database is created or upgraded first, so that the server and a running sync never race for it.

    Raises:
        ValueError: ``port`` is no port.
        PortInUseError: ``port`` is taken.
        StoreError: the store cannot be used.
    """
    chosen = tracking_uri(root, uri)
    if chosen.startswith("http"):
        return UiCommand(without_credentials(chosen), [], {})
    check_free(host, port)
    warnings = open_store(root, chosen).warnings
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
    return UiCommand(f"http://{host}:{port}", argv, {**os.environ, **_ENVIRONMENT, **store}, warnings)


def serve(
    argv: Sequence[str],
    environment: Mapping[str, str] | None,
    *,
    started: Callable[[subprocess.Popen[bytes]], None] | None = None,
    grace_seconds: float = _GRACE_SECONDS,
) -> int:
    """Run the server until it ends, or until this process is told to: by Ctrl-C, SIGINT, SIGTERM or a closed terminal.

    The server has a process group of its own. So Ctrl-C reaches this process alone, and whoever ends this process ends
    the server with all of its workers, which would hold the port. A second signal kills them at once; killed outright
    (SIGKILL), this process leaves a watcher that ends them.

    Args:
        started: called when the process was started; where it raises, the server is ended.

    Returns:
        The server's exit code; 0 where it was ended from here.
    """
    # Also where SIGINT was ignored, as in a shell's background: a signal to this process alone must end it.
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    server, watcher = None, None
    life, held = os.pipe()
    try:
        server = subprocess.Popen(argv, env=environment, start_new_session=True)  # noqa: S603 - no shell
        watcher = _watch(life, server.pid, grace_seconds)
        if started is not None:
            started(server)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        if server is not None:
            _end_group(server, grace_seconds)
        if watcher is not None:
            watcher.kill()
            watcher.wait()
        os.close(life)
        os.close(held)
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(life: int, group: int, grace_seconds: float) -> subprocess.Popen[bytes]:
    """End the server's group when this process is gone, whatever ended it: the pipe ``life`` has its end then.

    A process that is killed outright ends nothing itself, and the server would hold the port.
    """
    script = f"read _; kill -TERM -{group}; sleep {grace_seconds:g}; kill -KILL -{group}"
    return subprocess.Popen(  # noqa: S603 - numbers of ours alone
        ["/bin/sh", "-c", script],
        stdin=life,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end_group(server: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """End every process of the server's group: asked first, killed after ``grace_seconds`` or when interrupted."""
    try:
        os.killpg(server.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        while time.monotonic() < deadline:
            # Gone only when its workers are, too; the server itself has to be waited for.
            server.poll()
            os.killpg(server.pid, 0)
            time.sleep(0.05)
    except ProcessLookupError:
        return
    except KeyboardInterrupt:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def check_free(host: str, port: int) -> None:
    """Raises:
    ValueError: ``port`` is no port.
    PortInUseError: it is taken, or ``host`` is no address of this machine.
    """
    if port not in _PORTS:
        raise ValueError(f"--port {port}: a port is a number from {_PORTS[0]} to {_PORTS[-1]}")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise PortInUseError(
            f"port {port} on {host} cannot be used ({error.strerror}); choose another: --port"
        ) from None
