"""The names that this machine is called by, and which of them a server answers to."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence

EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - what a person may ask for
_LOCAL = ("localhost", "127.0.0.1", "[[]::1]")
# MLflow's own patterns of private addresses, which --allowed-hosts would take away.
_PRIVATE = ("10.*", "192.168.*", *(f"172.{number}.*" for number in range(16, 32)))
_NAME = re.compile(r"[A-Za-z0-9_*]([\w.*-]*[\w*])?", re.ASCII)


def names_of_this_machine() -> list[str]:
    """Its short and its full name, as nodes of a cluster may call it."""
    short = socket.gethostname()
    names = [short, short.partition(".")[0], socket.getfqdn()]
    return [name for name in dict.fromkeys(names) if name and not name.startswith("localhost")]


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server that listens there."""
    return host in ("localhost", "::1") or host.startswith("127.")


def allowed_hosts(names: Sequence[str]) -> str:
    """MLflow's ``--allowed-hosts``: these names and this machine's own, each with and without a port.

    MLflow compares the whole header, port included, and what is given here replaces its defaults.

    Raises:
        ValueError: something that is no name of a host.

    >>> "login1:*" in allowed_hosts(["login1"]).split(",")
    True
    """
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"--allow-host {name}: a host's name without scheme, port or path is needed, such as login1"
            )
    every = dict.fromkeys([*_LOCAL, *names_of_this_machine(), *names])
    words = [word for name in every for word in (name, f"{name}:*")]
    return ",".join([*words, *_PRIVATE])
