"""A real `mlflow server` for tests, that can be killed, frozen and started again."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, Signals
from urllib.error import URLError
from urllib.request import urlopen

from after_death import AfterDeath

from lmk_experiments.serving.command import connections

START_SECONDS = 900.0
"""How long a server may take to answer on a busy machine."""
_SMALL = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Of the two databases only this one is the server's; what a developer has set is for `lmk`.
    "MLFLOW_TRACKING_URI": "",
}


@dataclass
class Server:
    """A server on the loopback. It keeps its port when it is killed and started again."""

    backend_uri: str
    artifacts: Path
    port: int
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    _watcher: AfterDeath | None = None

    @property
    def url(self) -> str:
        """Its tracking address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.artifacts / "server.log"

    def start(self, *, wait: bool = True) -> None:
        """Start it and, with ``wait``, return when it answers."""
        self.artifacts.mkdir(parents=True, exist_ok=True)
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        stores = ["--artifacts-destination", self.artifacts.as_uri()]
        # The address has the password of the database: everyone on the machine reads the words of a command.
        database = {"MLFLOW_BACKEND_STORE_URI": self.backend_uri}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *where, *stores, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **_SMALL, **connections(1), **database, **self.environment},
                cwd=self.artifacts,
                start_new_session=True,
            )
        self._watcher = AfterDeath(f"kill -KILL -{self.process.pid}")
        if wait:
            self.wait()

    def wait(self) -> None:
        """Return when it answers."""
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no MLflow server at {self.url}:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def answers(self) -> bool:
        """Whether it says that it is well."""
        try:
            with urlopen(f"{self.url}/health", timeout=2) as reply:
                return reply.status == 200
        except (URLError, OSError):
            return False

    def kill(self) -> None:
        """Kill it and its workers at once, as a lost machine would."""
        self.signal(SIGKILL)
        if self.process is not None:
            self.process.wait()
        if self._watcher is not None:
            self._watcher.dismiss()
        self.process = self._watcher = None

    def signal(self, number: Signals) -> None:
        """Send a signal to it and its workers: after ``SIGSTOP`` it takes connections and answers none."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


@contextlib.contextmanager
def mlflow_server(
    backend_uri: str,
    artifacts: Path,
    port: int | None = None,
    *,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Generator[Server]:
    """A server with one worker on ``backend_uri`` that answers; it is gone when the block ends.

    Args:
        backend_uri: of its database, which it makes where it is missing.
        artifacts: the folder that it serves artifacts from; its log is there too.
        port: a free one by default.
        options: further ones of `mlflow server`.
        environment: of the server, beside this process's.
    """
    server = Server(backend_uri, artifacts, port or free_port(), options, environment or {})
    try:
        server.start()
        yield server
    finally:
        server.kill()


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
