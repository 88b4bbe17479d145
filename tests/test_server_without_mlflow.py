"""A server that has everything already is asked over REST, without importing MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow_server import Server
from without_mlflow import check_reading

from lmk_experiments.mirror.plain import ServerReader, server


def test_a_server_with_everything_in_it_is_read_without_mlflow(tracking_server: Server, tmp_path: Path) -> None:
    check_reading(tmp_path / "runs", tracking_server.url)


@pytest.mark.parametrize("foretold", ["rightly", "wrongly", "not at all"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_asked_for_ahead_are_the_server_s_own(
    tracking_server: Server, monkeypatch: pytest.MonkeyPatch, size: int, foretold: str
) -> None:
    from mlflow import MlflowClient

    client, name = MlflowClient(tracking_server.url), f"pages {size} {foretold}"
    experiment = client.create_experiment(name)
    made = [client.create_run(experiment, start_time=number, tags={"set": "one"}).info.run_id for number in range(1, 7)]
    client.create_run(experiment, start_time=2, tags={"set": "two"})
    monkeypatch.setattr(server, "_RUNS_A_PAGE", size)
    own = server._ahead
    if foretold == "wrongly":
        monkeypatch.setattr(server, "_ahead", lambda token, size: own(token, size + 1))
    elif foretold == "not at all":
        monkeypatch.setattr(server, "_ahead", lambda token, _: [token])
    reader = ServerReader(tracking_server.url)
    assert reader.experiments([name, "none"]) == {name: experiment}
    assert list(reader.runs_with(experiment, {"set": "one"})) == made


def test_tokens_are_foretold_as_mlflow_makes_them() -> None:
    from mlflow.utils.search_utils import SearchUtils

    made = [SearchUtils.create_page_token(offset).decode() for offset in (200, 400, 600, 800)]
    assert server._ahead(made[0], 200) == made
    assert server._ahead("e30=", 200) == ["e30="]
