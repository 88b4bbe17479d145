"""Runs of an MLflow server, over its REST API."""

from __future__ import annotations

import base64
import binascii
import configparser
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from lmk_experiments.mirror.address.credentials import PASSWORD, TOKEN, USERNAME, take_login, without_credentials
from lmk_experiments.mirror.plain.runs import NeedsMlflow, PlainClient, PlainData, PlainInfo, PlainRun

_RUNS_A_PAGE = 200
_AT_ONCE = 4
"""Requests: as many as `lmk serve` has processes that answer."""
_SECONDS = 30.0
_OTHER_WAYS = (
    "MLFLOW_TRACKING_AUTH",
    "MLFLOW_TRACKING_AWS_SIGV4",
    "MLFLOW_TRACKING_INSECURE_TLS",
    "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "MLFLOW_TRACKING_CLIENT_CERT_PATH",
    "MLFLOW_WORKSPACE",
)
"""Variables of ways to a server that only MLflow knows."""


class ServerReader(PlainClient):
    """Asks a server, with the login that MLflow's own client would use.

    Raises:
        NeedsMlflow: the way to it is not plain.
        OSError, ValueError: of its methods, where it does not answer or does not answer as MLflow.
    """

    def __init__(self, uri: str) -> None:
        if any(os.environ.get(name) for name in _OTHER_WAYS):
            raise NeedsMlflow("another way to the server")
        self._api = f"{without_credentials(uri).rstrip('/')}/api/2.0"
        self._headers = {"Content-Type": "application/json", **_login(uri)}

    def _ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        place = f"{self._api}/mlflow/{path}"
        return json.loads(_answer(Request(place, json.dumps(body).encode(), self._headers, method="POST")))  # noqa: S310

    def experiments(self, names: Iterable[str]) -> dict[str, str]:
        asked = list(names)
        bodies = [{"max_results": 2, "filter": f"name = '{name}'"} for name in asked]
        found: dict[str, str] = {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for held in pool.map(lambda body: self._ask("experiments/search", body), bodies):
                found |= {one["name"]: one["experiment_id"] for one in held.get("experiments", ())}
        return {name: found[name] for name in asked if name in found}

    def runs_with(self, experiment: str, tags: Mapping[str, str]) -> dict[str, PlainRun]:
        if any("'" in value for value in tags.values()):
            raise NeedsMlflow("a quote in a tag")
        body = {
            "experiment_ids": [experiment],
            "filter": " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items()),
            "max_results": _RUNS_A_PAGE,
            "order_by": ["attributes.start_time ASC"],
        }
        runs: dict[str, PlainRun] = {}
        for page in self._pages("runs/search", body):
            runs |= {run.info.run_id: run for run in map(_run, page.get("runs", ()))}
        return {key: run for key, run in runs.items() if tags.items() <= run.data.tags.items()}

    def artifact(self, run: PlainRun, path: str) -> str:
        scheme, _, place = run.info.artifact_uri.partition(":/")
        if scheme != "mlflow-artifacts" or place.startswith("/"):  # another host's, with its name, is MLflow's to find
            return super().artifact(run, path)
        held = f"{self._api}/mlflow-artifacts/artifacts/{quote(f'{place}/{path}')}"
        try:
            return _answer(Request(held, headers=self._headers)).decode()  # noqa: S310
        except HTTPError as error:
            raise NeedsMlflow(f"{path} of run {run.info.run_id}") from error

    def _pages(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Every page of an answer, in order. Those that come after the next one are asked for together with it."""
        page = self._ask(path, body)
        yield page
        token = page.get("next_page_token", "")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while token:
                ahead = _ahead(token, body["max_results"])
                pages = pool.map(lambda one: self._ask(path, {**body, "page_token": one}), ahead)
                for asked, page in zip(ahead, pages, strict=True):
                    if asked != token:
                        break  # the server goes on elsewhere, or ended: this was asked for in vain
                    yield page
                    token = page.get("next_page_token", "")


class _NoRedirects(HTTPRedirectHandler):
    """Where a server sends one elsewhere the login must not go along: MLflow knows how."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = build_opener(_NoRedirects)


def _answer(request: Request) -> bytes:
    try:
        with _OPENER.open(request, timeout=_SECONDS) as reply:
            return reply.read()
    except HTTPException as error:  # cut short, or not HTTP
        raise OSError(f"no whole answer: {type(error).__name__}") from error


def _login(uri: str) -> dict[str, str]:
    held = dict(os.environ)
    take_login(uri, held)
    user, password, token = (held.get(name, "") for name in (USERNAME, PASSWORD, TOKEN))
    if not (user and password):
        file = configparser.ConfigParser(interpolation=None)
        file.read(Path("~/.mlflow/credentials").expanduser())
        user = user or file.get("mlflow", USERNAME.lower(), fallback="")
        password = password or file.get("mlflow", PASSWORD.lower(), fallback="")
    if user and password:
        return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
    return {"Authorization": f"Bearer {token}"} if token else {}


def _run(value: Mapping[str, Any]) -> PlainRun:
    info, data = value["info"], value.get("data", {})
    return PlainRun(
        PlainInfo(
            info["run_id"],
            info["experiment_id"],
            info.get("run_name", ""),
            info["status"],
            int(info["start_time"]),
            int(info["end_time"]) if info.get("end_time") else None,
            info.get("artifact_uri", ""),
            info["lifecycle_stage"],
        ),
        PlainData(
            {one["key"]: float(one["value"]) for one in data.get("metrics", ())},
            {one["key"]: one.get("value", "") for one in data.get("params", ())},
            {one["key"]: one.get("value", "") for one in data.get("tags", ())},
        ),
    )


def _ahead(token: str, size: int) -> list[str]:
    """``token`` and, where it is MLflow's own, the tokens of the pages behind it.

    MLflow does not promise what a token holds, so one that was not foretold rightly is not used.

    >>> _ahead("another server's", 200)
    ["another server's"]
    """
    try:
        offset = json.loads(base64.b64decode(token, validate=True))["offset"]
        following = [{"offset": int(offset) + size * number} for number in range(1, _AT_ONCE)]
    except (binascii.Error, ValueError, LookupError, TypeError):
        return [token]
    return [token, *(base64.b64encode(json.dumps(one).encode()).decode() for one in following)]
