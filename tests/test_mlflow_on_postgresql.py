"""A team's MLflow server on a real PostgreSQL: many processes at once, two people, a login, and no secret anywhere."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psutil
import pytest
from after_death import AfterDeath
from mlflow_server import free_port
from postgres import NEEDS_POSTGRES, PASSWORD, QUOTED, Postgres, postgres

from lmk_experiments.mirror import StoreError, open_store, sync
from lmk_experiments.mirror.read import runs_of_root
from lmk_experiments.mirror.store import make_tables, quiet_mlflow
from lmk_experiments.records import CellRecorder, GridRecord, TrainingRecord, training_cell

pytestmark = NEEDS_POSTGRES

WORKERS, CELLS = 12, 2
ADMIN = "Marker-admin_secret/1"
LMK = [sys.executable, "-m", "lmk_experiments.cli.main"]


@pytest.fixture(scope="module")
def cluster() -> Generator[Postgres]:
    quiet_mlflow()
    with postgres() as running:
        yield running


def make_root(root: Path, grid: str, cells: int, loss: float = 1.0) -> list[str]:
    """A root with finished trainings; returns their ids, which every such root has alike."""
    identities = [f"{number:012x}" for number in range(1, cells + 1)]
    for identity in identities:
        cell = training_cell(root, identity)
        cell.create("training", {"optim": {"steps": 2}, "seed": 0})
        recorder = CellRecorder(cell.folder)
        recorder.event("attempt")
        recorder.metrics({"train/loss": loss}, 1)
        cell.finish(1.0, metrics={}, model="model")
    trainings = [TrainingRecord(identity, f"row{number}", 0) for number, identity in enumerate(identities)]
    GridRecord(grid, grid, trainings, [], None).save(root)
    return identities


def _work(root: Path, uri: str, number: int, start: Any, results: Any) -> None:
    try:
        make_root(root, f"grid{number}", CELLS)
        start.wait()
        report = sync(root, uri=uri, wait_seconds=900)
        results.put((number, report.created, report.warnings))
    except BaseException as error:  # noqa: BLE001 - another process has to learn of it
        results.put((number, -1, [repr(error)]))


def at_once(folder: Path, uri: str) -> list[tuple[int, int, list[str]]]:
    """What each of ``WORKERS`` processes says that open the store at the same moment and write into it."""
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(WORKERS), context.Queue()
    workers = [
        context.Process(target=_work, args=(folder / str(number), uri, number, start, results))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    said = sorted(results.get(timeout=1200) for _ in workers)
    for worker in workers:
        worker.join(60)
    return said


def test_twelve_workers_open_a_fresh_database_at_once_and_write_into_it(cluster: Postgres, tmp_path: Path) -> None:
    uri = cluster.database("fresh")
    assert at_once(tmp_path, uri) == [(number, CELLS, []) for number in range(WORKERS)]
    names = cluster.sql("SELECT name FROM experiments ORDER BY 1", "fresh").splitlines()
    assert names == ["Default", "lmk-analyze", "lmk-evaluate", "lmk-train"]
    # One run a cell and one a grid, though every root's cells have the same names.
    assert int(cluster.sql("SELECT count(*) FROM runs", "fresh")) == WORKERS * (CELLS + 1)
    assert int(cluster.sql("SELECT count(DISTINCT value) FROM tags WHERE key = 'lmk.root_id'", "fresh")) == WORKERS


def test_the_driver_that_is_installed_is_used_and_no_password_is_told(cluster: Postgres, tmp_path: Path) -> None:
    uri = cluster.database("driver")
    store = open_store(tmp_path, uri.replace("postgresql://", "postgres://"))
    assert store.uri.startswith("postgresql+psycopg")
    assert store.address == f"{store.uri.partition('://')[0]}://127.0.0.1:{cluster.port}/driver"
    wrong = uri.replace(QUOTED, "wrong-marker-word")
    with pytest.raises(StoreError, match=r"PostgreSQL does not take the login: .*; PGPASSWORD or ~/.pgpass") as caught:
        open_store(tmp_path, wrong)
    assert "wrong-marker-word" not in str(caught.value)
    nobody = f"postgresql://lmk:{QUOTED}@127.0.0.1:{free_port()}/driver"
    with pytest.raises(StoreError, match="nobody listens there"):
        open_store(tmp_path, nobody)


def test_tables_of_an_older_mlflow_are_upgraded_only_when_asked(cluster: Postgres) -> None:
    import sqlalchemy
    from alembic import command
    from mlflow.store.db.utils import InitialBase, _get_alembic_config

    from lmk_experiments.mirror.database import _scripts

    uri = cluster.database("older").replace("postgresql://", "postgresql+psycopg://")
    latest, before = [script.revision for script in _scripts().walk_revisions()][:2]
    config, engine = _get_alembic_config(uri), sqlalchemy.create_engine(uri)
    InitialBase.metadata.create_all(engine)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, before)
    engine.dispose()

    def version() -> str:
        return cluster.sql("SELECT version_num FROM alembic_version", "older")

    with pytest.raises(StoreError, match="schema of another version of MLflow"):
        make_tables(uri, "mlflow-artifacts:/")
    assert version() == before
    make_tables(uri, "mlflow-artifacts:/", upgrade=True)
    assert version() == latest


class Team:
    """A server that `lmk serve` runs, and what it printed."""

    def __init__(self, cluster: Postgres, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.log = folder / "serve.log"
        self.folder = folder
        environment = {**os.environ, "MLFLOW_BACKEND_STORE_URI": cluster.database(folder.name.replace("-", "_"))}
        words = ["serve", "--folder", str(folder), "--port", str(self.port), "--workers", "1", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*LMK, *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.watcher = AfterDeath(f"kill {self.process.pid}")

    def wait(self) -> str:
        """What it printed until it said where it is found."""
        deadline = time.monotonic() + 540
        while "export LMK_STORE=" not in (said := self.log.read_text()):
            assert self.process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)
        return said

    @property
    def url(self) -> str:
        return self.log.read_text().partition("export LMK_STORE=")[2].split()[0]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.watcher.dismiss()


@pytest.fixture(scope="module")
def team(cluster: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Generator[Team]:
    """A server with a login, that listens everywhere."""
    os.environ["MLFLOW_AUTH_ADMIN_PASSWORD"] = ADMIN
    server = Team(cluster, tmp_path_factory.mktemp("team"), "--host", "0.0.0.0", "--auth")
    del os.environ["MLFLOW_AUTH_ADMIN_PASSWORD"]
    try:
        server.wait()
        yield server
    finally:
        server.end()


def _call(url: str, path: str, body: dict[str, Any], user: str, password: str) -> dict[str, Any]:
    from base64 import b64encode

    login = b64encode(f"{user}:{password}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {login}"}
    request = Request(f"{url}/api/2.0/mlflow/{path}", json.dumps(body).encode(), headers, method="POST")
    with urlopen(request, timeout=60) as reply:
        return json.load(reply)


def test_two_people_with_a_login_share_a_server_and_leave_no_secret_anywhere(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = team.log.read_text()
    assert "OPEN TO EVERYONE" not in said
    place = urlsplit(team.url)
    assert place.hostname not in ("127.0.0.1", "localhost")  # a name that nodes know
    url = f"http://127.0.0.1:{team.port}"
    monkeypatch.setenv("HOME", str(tmp_path))

    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    nobody = tmp_path / "nobody"
    make_root(nobody, "none", 1)
    with pytest.raises(StoreError, match=r"wants a login.*\(401\): set MLFLOW_TRACKING_USERNAME"):
        sync(nobody, uri=url)

    people = {"ada": "ada-Marker/pass@1", "bob": "bob-Marker/pass@2"}
    for name, password in people.items():
        _call(url, "users/create", {"username": name, "password": password}, "admin", ADMIN)
    # Ada's login is in the address; Bob's in MLflow's file of credentials.
    ada, bob = tmp_path / "ada", tmp_path / "bob"
    make_root(ada, "same", 2, loss=1.0)
    make_root(bob, "same", 2, loss=2.0)
    with_login = f"http://ada:ada-Marker%2Fpass%401@127.0.0.1:{team.port}"
    assert (sync(ada, uri=with_login).created, sync(ada, uri=with_login).writes) == (2, 0)
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME")
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    (tmp_path / ".mlflow").mkdir()
    (tmp_path / ".mlflow" / "credentials").write_text(
        f"[mlflow]\nmlflow_tracking_username = bob\nmlflow_tracking_password = {people['bob']}\n"
    )
    assert sync(bob, uri=url).created == 2
    assert sync(bob, uri=url).writes == 0
    losses = []
    for root in (ada, bob):
        runs = [run for run in runs_of_root(open_store(root, url), "training").values() if "lmk.cell" in run.data.tags]
        losses.append({run.data.metrics["train/loss"] for run in runs})
        assert len(runs) == 2
    assert losses == [{1.0}, {2.0}]

    secrets = [ADMIN, PASSWORD, QUOTED, *people.values(), "ada-Marker%2Fpass%401", "Marker/pass"]
    server = psutil.Process(team.process.pid)
    commands = [" ".join(one.cmdline()) for one in (server, *server.children(recursive=True))]
    assert len(commands) >= 3
    shown = team.log.read_text() + "\n".join(commands)
    files = [path for root in (ada, bob, nobody, team.folder / "artifacts") for path in root.rglob("*")]
    texts = [path.read_bytes().decode(errors="replace") for path in files if path.is_file()]
    dump = "".join(
        json.dumps([run.data.to_dictionary(), dict(run.info)])
        for run in runs_of_root(open_store(ada, url), "training").values()
    )
    for secret in secrets:
        assert secret not in shown
        assert secret not in dump
        assert not [text for text in texts if secret in text]
    assert stat.S_IMODE((team.folder / "login.ini").stat().st_mode) == 0o600


@pytest.mark.parametrize("word", ["password1234", "Zq7"])
def test_a_known_or_short_password_of_the_administrator_is_refused(word: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [*LMK, "serve", "--folder", str(tmp_path / "x"), "--auth", "--port", str(free_port())],
        env={**os.environ, "MLFLOW_AUTH_ADMIN_PASSWORD": word},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "MLFLOW_AUTH_ADMIN_PASSWORD is well known or shorter than 12 characters" in ended.stderr
    assert not (tmp_path / "x" / "admin-password").exists()
