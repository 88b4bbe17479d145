"""The login of a team's server: MLflow's own app for it, its settings and its first user."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from lmk_experiments.errors import WorkFailed

ADMIN_PASSWORD = "MLFLOW_AUTH_ADMIN_PASSWORD"  # noqa: S105 - the variable's name
PERMISSIONS = ("READ", "EDIT", "MANAGE", "NO_PERMISSIONS")
_WELL_KNOWN = frozenset({"password1234", "password", "admin", "changeme", "12345678", "123456789012", "mlflow"})
_SHORTEST = 12
_CACHE_SECONDS = 60


class ServeError(WorkFailed):
    """The server cannot be started; the message says what to do."""


def login_settings(
    folder: Path, admin: str, permission: str, *, draft: bool = False
) -> tuple[dict[str, str], list[str]]:
    """The environment of a server with a login, and what the person who starts it has to know.

    Accounts are in ``users.db`` in ``folder``; MLflow keeps hashes of passwords there. The first start makes the
    administrator: the password is that of the environment, or is drawn and written to a file that only this user reads.

    Raises:
        ServeError: a package is missing, or the password is a well-known or a short one.
        ValueError: there is no such permission.
    """
    if permission not in PERMISSIONS:
        raise ValueError(f"--permission {permission}: valid: {', '.join(PERMISSIONS)}")
    if find_spec("flask_wtf") is None:
        raise ServeError("MLflow's login needs another package: pip install 'mlflow[auth]'  (it brings Flask-WTF)")
    settings = folder / "login.ini"
    if not draft:
        folder.mkdir(parents=True, exist_ok=True)
        _write_private(settings, _INI.format(permission=permission, users=folder / "users.db", cache=_CACHE_SECONDS))
    environment = {
        "MLFLOW_AUTH_CONFIG_PATH": os.environ.get("MLFLOW_AUTH_CONFIG_PATH") or str(settings),
        "MLFLOW_AUTH_ADMIN_USERNAME": admin,
        # Signs forms of the page where an administrator adds users; MLflow demands one.
        "MLFLOW_FLASK_SERVER_SECRET_KEY": os.environ.get("MLFLOW_FLASK_SERVER_SECRET_KEY") or secrets.token_hex(32),
    }
    if draft:
        return {**environment, ADMIN_PASSWORD: ""}, []
    password, said = _admin_password(folder, admin, os.environ)
    return {**environment, ADMIN_PASSWORD: password}, said


_INI = """[mlflow]
default_permission = {permission}
database_uri = sqlite:///{users}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
# A password is hashed at every request otherwise, which takes most of a server's time.
auth_cache_ttl_seconds = {cache}
"""


def _admin_password(folder: Path, admin: str, environment: Mapping[str, str]) -> tuple[str, list[str]]:
    file = folder / "admin-password"
    given = environment.get(ADMIN_PASSWORD)
    if given is not None:
        if given.lower() in _WELL_KNOWN or len(given) < _SHORTEST or given == admin:
            raise ServeError(
                f"{ADMIN_PASSWORD} is well known or shorter than {_SHORTEST} characters, and would let everyone in as "
                f"{admin}: choose another, or unset it, and one is drawn"
            )
        return given, [f"the administrator is {admin}; the password of {ADMIN_PASSWORD} counts at the first start only"]
    if not file.exists():
        _write_private(file, secrets.token_urlsafe(18) + "\n")
    return file.read_text(encoding="utf-8").strip(), [f"the administrator is {admin}; the first password is in {file}"]


def _write_private(file: Path, text: str) -> None:
    """A file that nobody else reads, from its first byte on."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
