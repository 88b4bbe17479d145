"""A server that has everything already is asked over REST, without importing MLflow."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from mlflow_server import Server
from without_mlflow import check_reading, make_root

from lmk_experiments.mirror import read_scores, sync
from lmk_experiments.mirror.collected import complete
from lmk_experiments.mirror.plain import NeedsMlflow, PlainRun, ServerReader, server
from lmk_experiments.mirror.plain.runs import PlainInfo
from lmk_experiments.records import load_grid


def test_a_server_with_everything_in_it_is_read_without_mlflow(tracking_server: Server, tmp_path: Path) -> None:
    check_reading(tmp_path / "runs", tracking_server.url)


def test_a_table_of_a_grid_that_is_there_asks_for_one_run(
    tracking_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, asked = tmp_path / "runs", []
    make_root(root)
    sync(root, uri=tracking_server.url)
    own = ServerReader._ask

    def ask(reader: ServerReader, path: str, body: dict) -> dict:
        answer = own(reader, path, body)
        asked.append((path, len(answer.get("runs", ()))))
        return answer

    monkeypatch.setattr(ServerReader, "_ask", ask)
    monkeypatch.delitem(sys.modules, "mlflow")
    grid = load_grid(root, "one")
    seen = complete(root, grid, tracking_server.url)
    assert seen is not None
    assert read_scores(root, grid, uri=tracking_server.url, seen=seen) == {"2" * 12: {"Needle": {"main_score": 1 / 3}}}
    assert sorted(asked) == [("experiments/search", 0)] * 3 + [("runs/search", 1)]
    assert "mlflow" not in sys.modules


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


class _Elsewhere(BaseHTTPRequestHandler):
    """Answers `/cut` with less than it promised, `/away` with another address, and remembers who came with a login."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        if "away" in self.path:
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/other")
            self.end_headers()
        else:
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def test_artifacts_by_odd_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD"):  # they come before a token
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        reader = ServerReader(f"http://127.0.0.1:{server.server_address[1]}")

        def ask(artifact_uri: str) -> str:
            return reader.artifact(PlainRun(PlainInfo("1", "1", "", "FINISHED", 0, 0, artifact_uri)), "scores.json")

        with pytest.raises(OSError, match="no whole answer: IncompleteRead"):
            ask("mlflow-artifacts:/a team's runs/\u00e9 #1")
        with pytest.raises(NeedsMlflow):
            ask("mlflow-artifacts:/away")
        for other in ("mlflow-artifacts://host/runs", "s3://bucket/runs", "/nowhere"):
            with pytest.raises(NeedsMlflow):
                ask(other)
        server.shutdown()
    place = "/api/2.0/mlflow-artifacts/artifacts"
    asked = [f"{place}/a%20team%27s%20runs/%C3%A9%20%231/scores.json", f"{place}/away/scores.json"]
    assert _Elsewhere.asked == [(one, "Bearer secret") for one in asked]
