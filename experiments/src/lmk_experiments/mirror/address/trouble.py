"""Why a store could not be used, in one sentence that says the cure."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from lmk_experiments.errors import WorkFailed
from lmk_experiments.mirror.address.credentials import PASSWORD, TOKEN, USERNAME, scrub, take_login, without_credentials


class StoreError(WorkFailed):
    """The store cannot be used; the message says why and what to do. The records are not touched."""


_LONGEST = 300
LOGIN = (
    "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or MLFLOW_TRACKING_TOKEN), or write them into "
    "~/.mlflow/credentials"
)


def check_http(uri: str) -> None:
    """A password whose special characters are not encoded would be taken for something else, and be quoted.

    Raises:
        StoreError: the address is not one that MLflow's clients can use.
    """
    place = uri.partition("://")[2]
    host = re.split(r"[/?#]", place, maxsplit=1)[0]
    if "@" in place[len(host) :] or place.count("@") > 1:
        raise StoreError(
            f"the address of the store at {without_credentials(uri)} has an @ where none belongs: write the password's "
            "special characters encoded (/ is %2F, @ is %40, # is %23, ? is %3F), or set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD and leave them out of the address"
        )
    if "?" in place or "#" in place:
        raise StoreError(
            f"the address of the store at {without_credentials(uri)} goes on after a ? or #, and MLflow's cannot; a "
            "token belongs into MLFLOW_TRACKING_TOKEN"
        )


def explain(error: BaseException, address: str, *uris: str) -> str:
    """What went wrong at ``address`` (which has no login), without any secret, and what to do about it."""
    text = str(error)
    for pattern, cure in _CURES:
        if pattern.search(text):
            return scrub(cure(address, text), *uris)
    return scrub(_first_line(text), *uris)


def ask(uri: str, *, seconds: float = 10.0) -> str | None:
    """What keeps this process from using the server at ``uri``, in words; ``None`` where nothing does.

    Asks without MLflow, whose import takes seconds; a login in a file of credentials is not looked for.
    """
    address = without_credentials(uri)
    request = Request(f"{address.rstrip('/')}/api/2.0/mlflow/experiments/search?max_results=1")  # noqa: S310
    environment = dict(os.environ)
    take_login(uri, environment)
    user, password, token = (environment.get(name, "") for name in (USERNAME, PASSWORD, TOKEN))
    if user and password:
        request.add_header("Authorization", f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}")
    elif token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=seconds) as reply:  # noqa: S310 - http only
            json.load(reply)
    except HTTPError as error:
        body = error.read(1000).decode("utf-8", "replace")
        return explain(RuntimeError(f"failed with error code {error.code}: {body}"), address, uri)
    except ValueError:
        return _no_mlflow(address, "")
    except OSError as error:
        return explain(error, address, uri)
    return None


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _host(address: str) -> str:
    return urlsplit(address).netloc or address


def _wrong_host(address: str, _: str) -> str:
    host = _host(address)
    return (
        f"it refuses the name {host} (403, its check against DNS rebinding), although its /health says that all is "
        f"well. Start it with `lmk serve`, which allows this machine's names, or `mlflow server --allowed-hosts "
        f"'{host.partition(':')[0]},{host},localhost:*'`"
    )


def _no_login(_address: str, _: str) -> str:
    return f"it wants a login, or does not take the one it got (401): {LOGIN}"


def _not_allowed(_address: str, _: str) -> str:
    return (
        "you are logged in, and may not write there (403): its experiments are somebody else's. Give yours names of "
        "their own (LMK_EXPERIMENT_PREFIX=my-group), or ask whoever looks after the server for the permission EDIT"
    )


def _no_mlflow(address: str, text: str) -> str:
    return (
        f"what answers at {address} is no MLflow server, or a page before it (a login page, a proxy): {_status(text)}. "
        "The address ends where the UI's begins: http://HOST:PORT, with the path of --static-prefix if there is one"
    )


def _status(text: str) -> str:
    found = re.search(r"error code (\d{3})", text)
    return f"it says {found[1]}" if found else "it sends a page instead of JSON"


def _tls(address: str, text: str) -> str:
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text or "wrong version number" in text:
        return f"it speaks no TLS: write http:// instead of https:// in {address}"
    return (
        "its certificate is not trusted here: name the authority's file in MLFLOW_TRACKING_SERVER_CERT_PATH "
        "(and its host as the certificate spells it)"
    )


def _needs_tls(address: str, _: str) -> str:
    return f"it speaks TLS: write https:// instead of http:// in {address}"


def _proxy(address: str, _: str) -> str:
    return f"a proxy stands between: add {_host(address).partition(':')[0]} to the variable no_proxy"


def _unreachable(address: str, text: str) -> str:
    name = _host(address).partition(":")[0]
    if re.search(r"NameResolution|Name or service not known|nodename nor servname|could not translate host", text):
        reason = f"the name {name} is not known here"
    elif re.search(r"timed out|timeout", text, re.IGNORECASE):
        reason = f"{name} does not answer in time"
    else:
        reason = "nobody listens there"
    proxy = next((key for key in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY") if os.environ.get(key)), "")
    return f"{reason}{f' (through the proxy of {proxy}; no_proxy leaves hosts out)' if proxy else ''}"


def _password(_address: str, text: str) -> str:
    return f"PostgreSQL does not take the login: {_first_line(text)}; PGPASSWORD or ~/.pgpass holds a password too"


_CURES: tuple[tuple[re.Pattern[str], Callable[[str, str], str]], ...] = (
    (re.compile(r"Invalid Host header"), _wrong_host),
    (re.compile(r"not authenticated|error code 401|UNAUTHENTICATED|401 Client Error", re.IGNORECASE), _no_login),
    (re.compile(r"PERMISSION_DENIED|Permission denied$|error code 403|403 Client Error"), _not_allowed),
    (re.compile(r"HTTP request was sent to (an )?HTTPS|Client sent an HTTP request to an HTTPS"), _needs_tls),
    (re.compile(r"ProxyError|error code 407|Tunnel connection failed"), _proxy),
    (re.compile(r"SSLError|CERTIFICATE_VERIFY_FAILED|SSLCert|WRONG_VERSION_NUMBER|certificate verify"), _tls),
    (
        re.compile(r"password authentication failed|no password supplied|no pg_hba.conf entry|role .* does not"),
        _password,
    ),
    (
        re.compile(
            r"Max retries exceeded|NameResolution|Connection refused|timed out|ConnectionError|Connection reset"
            r"|could not translate host|Connection aborted|failed to resolve host"
        ),
        _unreachable,
    ),
    (re.compile(r"not in a valid JSON format|error code 40[045]|error code 30\d|error code 50[234]"), _no_mlflow),
)
