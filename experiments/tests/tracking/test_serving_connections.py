"""The connections that `lmk serve` lets its workers hold."""

from __future__ import annotations

import pytest

from lmk_experiments.serving.command import connections, server_command

SIZE, MORE = "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW"


@pytest.mark.parametrize(("workers", "each"), [(1, 92), (2, 46), (4, 23), (6, 15)])
def test_workers_share_what_postgresql_takes(workers: int, each: int) -> None:
    found = connections(workers)
    assert int(found[SIZE]) + int(found[MORE]) == each


def test_more_workers_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=f"--workers 7: at most 6 fit .* set {SIZE} and {MORE}"):
        connections(7)
    monkeypatch.setenv(SIZE, "5")
    monkeypatch.setenv(MORE, "8")
    assert connections(7) == {SIZE: "5", MORE: "8"}


def test_what_is_set_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MORE, "200")
    assert connections(4) == {SIZE: "5", MORE: "200"}


def test_only_postgresql_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    assert MORE not in server_command(tmp_path, draft=True).settings
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", "postgresql://lmk@dbhost/mlflow")
    assert server_command(tmp_path, draft=True, workers=4).settings[MORE] == "18"
