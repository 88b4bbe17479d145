"""A PostgreSQL database that has everything already is read without importing MLflow, and as MLflow reads it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from postgres import NEEDS_POSTGRES, Postgres, postgres
from without_mlflow import check_reading, lmk, make_root

from lmk_experiments.mirror import open_store
from lmk_experiments.mirror.plain import NeedsMlflow, PostgresReader
from lmk_experiments.mirror.read import runs_of_root
from lmk_experiments.mirror.store import ROOT_ID, tracking_uri

pytestmark = NEEDS_POSTGRES


@pytest.fixture(scope="module")
def cluster() -> Generator[Postgres]:
    with postgres() as running:
        yield running


def test_a_database_with_everything_in_it_is_read_without_mlflow(cluster: Postgres, tmp_path: Path) -> None:
    check_reading(tmp_path / "runs", cluster.database("filled"))


def test_runs_are_those_that_mlflow_reads(cluster: Postgres, tmp_path: Path) -> None:
    root, uri = tmp_path / "runs", cluster.database("read")
    make_root(root)
    lmk("sync", root=root, uri=uri)
    store, reader = open_store(root, uri), PostgresReader(tracking_uri(root, uri))
    assert reader.experiments(["lmk-train", "none"]) == {"lmk-train": store.experiments["training"]}
    for kind in ("training", "evaluation"):
        own = runs_of_root(store, kind)
        plain = reader.runs_with(store.experiments[kind], {ROOT_ID: store.root.id})
        assert len(own) == 2
        assert list(plain) == list(own)
        for run_id, run in own.items():
            info = plain[run_id].info
            assert all(getattr(info, name) == getattr(run.info, name) for name in vars(info)), info
            assert vars(plain[run_id].data) == run.data.to_dictionary()


def test_what_cannot_be_read_is_left_to_mlflow_without_a_password(cluster: Postgres) -> None:
    empty = tracking_uri(Path(), cluster.database("empty"))
    with pytest.raises(OSError, match=r"^the database cannot be read: ProgrammingError$"):
        PostgresReader(empty)
    wrong = tracking_uri(Path(), "postgresql://someone:Marker-word@127.0.0.1:1/nothing")
    with pytest.raises(OSError, match=r"^the database cannot be read: OperationalError$") as caught:
        PostgresReader(wrong)
    assert caught.value.__cause__ is None


def test_another_schema_needs_mlflow(cluster: Postgres, tmp_path: Path) -> None:
    import sqlalchemy
    import sqlalchemy.pool

    uri = cluster.database("older")
    open_store(tmp_path / "runs", uri)
    address = tracking_uri(tmp_path, uri)
    PostgresReader(address)
    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.pool.NullPool)
    with engine.begin() as database:
        database.execute(sqlalchemy.text("UPDATE alembic_version SET version_num = 'unknown'"))
    with pytest.raises(NeedsMlflow):
        PostgresReader(address)
