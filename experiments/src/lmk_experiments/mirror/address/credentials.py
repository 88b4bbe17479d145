"""Passwords and tokens: taken from where MLflow keeps them, and kept out of everything that is written or said."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlencode

USERNAME, PASSWORD, TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"
"""MLflow's own variables; its file ``~/.mlflow/credentials`` has the first two."""

HIDDEN = "***"
_ADDRESSES = ("LMK_STORE", "MLFLOW_TRACKING_URI", "MLFLOW_BACKEND_STORE_URI", "MLFLOW_REGISTRY_URI")
_SECRETS = (PASSWORD, TOKEN, "PGPASSWORD", "MLFLOW_AUTH_ADMIN_PASSWORD", "MLFLOW_FLASK_SERVER_SECRET_KEY")
# Greedy: a password may hold an @ that nobody has encoded, and too much is hidden rather than too little.
_LOGIN = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^:/@\s]*)(?::(?P<password>.*))?@", re.DOTALL)
_IN_TEXT = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)[^/\s@'\"]*(?::[^\s@'\"]*)?@")
_PLAIN = frozenset({"host", "port", "dbname", "sslmode", "service", "target_session_attrs", "charset"})
_SHORTEST = 4
"""A shorter secret is not looked for in texts: every second word would hold it."""


def without_credentials(uri: str) -> str:
    """The address without user and password, and without what its query says beyond where the store is.

    >>> without_credentials("postgresql+psycopg://me:secret@db:5432/mlflow")
    'postgresql+psycopg://db:5432/mlflow'
    >>> without_credentials("postgresql:///mlflow?host=/run/pg&user=me&password=secret")
    'postgresql:///mlflow?host=%2Frun%2Fpg'
    """
    if uri.startswith("sqlite:"):
        return uri
    match = _LOGIN.match(uri)
    bare = match["scheme"] + uri[match.end() :] if match else uri
    place, _, query = bare.partition("#")[0].partition("?")
    kept = [(key, value) for key, value in parse_qsl(query, keep_blank_values=True) if key in _PLAIN]
    return f"{place}?{urlencode(kept)}" if kept else place


def login_of(uri: str) -> tuple[str, str] | None:
    """User and password of an address, decoded; ``None`` where it names no user.

    >>> login_of("https://me:s%40cret@tracking")
    ('me', 's@cret')
    """
    match = None if uri.startswith("sqlite:") else _LOGIN.match(uri)
    if match is None:
        return None
    return unquote(match["user"]), unquote(match["password"] or "")


def take_login(uri: str, environment: MutableMapping[str, str] | None = None) -> str:
    """An http address without its login, which MLflow then finds in its own variables of this process.

    MLflow's clients quote the address in their messages, and its store of artifacts never looks into it for a login.
    """
    environment = os.environ if environment is None else environment
    login = login_of(uri)
    if login is not None and uri.startswith("http"):
        environment[USERNAME], environment[PASSWORD] = login
        # MLflow sends a token only where it has no login, so that a token of another server does no harm here.
    return without_credentials(uri) if uri.startswith("http") else uri


def has_login(uri: str) -> bool:
    """Whether the address itself carries something that must not be seen."""
    return without_credentials(uri) != uri and not uri.startswith("sqlite:")


def scrub(text: str, *uris: str, environment: Mapping[str, str] | None = None) -> str:
    """``text`` with every known secret as ``***``: those of ``uris``, of the environment, and logins of any address.

    >>> scrub("cannot reach http://me:secret@tracking:5000/api", environment={})
    'cannot reach http://***@tracking:5000/api'
    """
    environment = os.environ if environment is None else environment
    addresses = [*uris, *(environment[name] for name in _ADDRESSES if environment.get(name))]
    for address in addresses:
        if has_login(address):
            text = text.replace(address, without_credentials(address))
    found = {secret for address in addresses for secret in _secrets_of(address)}
    found |= {environment[name] for name in _SECRETS if environment.get(name)}
    user = environment.get(USERNAME, "")
    logins = {(user, environment.get(PASSWORD, ""))} | {login for one in addresses if (login := login_of(one))}
    found |= {base64.b64encode(f"{name}:{password}".encode()).decode() for name, password in logins if password}
    for secret in sorted({form for one in found for form in _forms(one)}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _IN_TEXT.sub(lambda match: f"{match['scheme']}{HIDDEN}@", text)


def _secrets_of(uri: str) -> Iterator[str]:
    """What an address holds that must not be seen, as it stands there."""
    match = None if uri.startswith("sqlite:") else _LOGIN.match(uri)
    if match is not None:
        yield match["password"] or match["user"]
        uri = match["scheme"] + uri[match.end() :]
    query = uri.partition("?")[2].partition("#")[0]
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        # The user's name alone is no secret, and too common a word to hide everywhere.
        if value and key not in _PLAIN and key != "user":
            yield value


def _forms(secret: str) -> Iterator[str]:
    """A secret as it stands, decoded and encoded: libraries quote any of these."""
    for form in (secret, unquote(secret), unquote_plus(secret)):
        for spelled in (form, quote(form), quote(form, safe=""), quote_plus(form), repr(form)[1:-1]):
            if len(spelled) >= _SHORTEST:
                yield spelled
