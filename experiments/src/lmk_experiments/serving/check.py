"""Whether a server that was just started can be used by the names that nodes call it by."""

from __future__ import annotations

import socket
import subprocess
import time
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from lmk_experiments.errors import WorkFailed
from lmk_experiments.serving.command import ServerCommand

_API = "/api/2.0/mlflow/experiments/search?max_results=1"
_POLL_SECONDS = 0.2


class CheckError(WorkFailed):
    """The server runs and cannot be used."""


def check_server(command: ServerCommand, server: subprocess.Popen[bytes], *, seconds: float = 480.0) -> list[str]:
    """Wait until the server answers, then ask it something under each of its names.

    Its /health is no evidence: it says that all is well where every other page is refused.

    Returns:
        What is worth saying: names that it cannot be reached by from here.

    Raises:
        CheckError: it ended, does not answer, refuses a name of its own, or lets in without the login asked for.
    """
    near, port = command.near, command.port
    deadline = time.monotonic() + seconds
    while _status(near, port, "/health", f"{near}:{port}") != 200:
        if server.poll() is not None:
            raise CheckError(f"the server ended with {server.returncode}; what it printed says why")
        if time.monotonic() > deadline:
            raise CheckError(f"the server does not answer on port {port} after {seconds:.0f} seconds")
        time.sleep(_POLL_SECONDS)
    said: list[str] = []
    wanted = 401 if command.login else 200
    for url in command.urls:
        host = urlsplit(url).netloc
        status = _status(near, port, _API, host)
        if status == 403:
            raise CheckError(f"the server refuses its own name {host} (403); --allow-host adds names")
        if command.login and status == 200:
            raise CheckError("the server lets everyone in, although a login was asked for: it was ended")
        if status != wanted:
            raise CheckError(f"the server says {status} under {host}, and {wanted} was expected")
        if _status(urlsplit(url).hostname or "", port, _API, host) != wanted:
            said.append(f"{url} is not reached from here: that name is not known, or a firewall is between")
    return said


def _status(address: str, port: int, path: str, host: str) -> int | None:
    """What ``address`` says to a request for ``host``; ``None`` where nobody answers."""
    connection = HTTPConnection(address, port, timeout=20)
    try:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status
    except (OSError, HTTPException, socket.gaierror):
        return None
    finally:
        connection.close()
