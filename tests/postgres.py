"""A real PostgreSQL for tests: a cluster of its own in a temporary folder, on a free port and a unix socket."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from after_death import AfterDeath

PASSWORD = "marker-Pass/word@1"
QUOTED = "marker-Pass%2Fword%401"
_USER = "postgres"


def _programs() -> Path | None:
    """The folder with ``initdb``: Debian keeps it out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return None if program is None else Path(program).parent


_FOUND = _programs()
PROGRAMS = _FOUND or Path("/nonexistent")
NEEDS_POSTGRES = pytest.mark.skipif(_FOUND is None, reason="needs PostgreSQL (Debian: postgresql)")


@dataclass(frozen=True)
class Postgres:
    """A running cluster with the user ``lmk``, who may make databases."""

    folder: Path
    port: int

    def database(self, name: str) -> str:
        """Make an empty database; returns its address, with the password."""
        self.sql(f'CREATE DATABASE "{name}" OWNER lmk')
        return f"postgresql://lmk:{QUOTED}@127.0.0.1:{self.port}/{name}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What a statement gives, as its superuser."""
        command = ["psql", "-X", "-q", "-A", "-t", "-h", str(self.folder), "-p", str(self.port), "-U", _USER, "-v"]
        return _run([*command, "ON_ERROR_STOP=1", "-d", database, "-c", statement]).strip()


@contextlib.contextmanager
def postgres() -> Generator[Postgres]:
    """A cluster that asks for passwords over TCP; it is gone when the block ends, and when this process is killed.

    PostgreSQL refuses to run as root, so that its processes belong to the user ``postgres`` then.
    """
    # A short path: that of a unix socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    control = [str(PROGRAMS / "pg_ctl"), "-D", str(folder / "data"), "-w", "-t", "120"]
    stop = [*control, "-m", "immediate", "stop"]
    watcher = AfterDeath(f"{shlex.join([*_as_user(), *stop])}; rm -rf {shlex.quote(str(folder))}")
    try:
        if os.getuid() == 0:
            user = pwd.getpwnam(_USER)
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = folder / "data"
        _run([str(PROGRAMS / "initdb"), "-D", str(data), "-U", _USER, "--auth-local=trust", "--auth-host=scram-sha-256",
              "-E", "UTF8", "--no-sync"])  # fmt: skip
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        # Nothing that a test writes has to survive a power cut.
        options = f"-p {port} -k {folder} -h 127.0.0.1 -c fsync=off -c full_page_writes=off -c synchronous_commit=off"
        _run([*control, "-l", str(folder / "log"), "-o", options, "start"])
        try:
            server = Postgres(folder, port)
            server.sql(f"CREATE ROLE lmk LOGIN CREATEDB PASSWORD '{PASSWORD}'")
            yield server
        finally:
            _run(stop)
    finally:
        watcher.dismiss()
        shutil.rmtree(folder, ignore_errors=True)


def _as_user() -> list[str]:
    return ["setpriv", "--reuid", _USER, "--regid", _USER, "--init-groups"] if os.getuid() == 0 else []


def _run(command: list[str]) -> str:
    done = subprocess.run(
        [*_as_user(), *command],
        stdin=subprocess.DEVNULL,
        # Not a pipe: a server that stays would keep it open.
        stdout=subprocess.PIPE if "start" not in command else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=180,
        cwd="/",
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout or ""
