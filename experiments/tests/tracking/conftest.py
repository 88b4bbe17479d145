"""Roots with records, as `lmk run` leaves them, and one MLflow database for a test module."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_experiments.mirror import open_store
from lmk_experiments.mirror.read import runs_of_root
from lmk_experiments.records import CellRecorder, GridRecord, RowRecord, TrainingRecord, evaluation_cell, training_cell

SUITE = {"name": "tiny", "title": None, "tasks": [{"name": "Needle", "folder": "built:x"}, {"name": "Words"}]}


class Root:
    """Writes records. Identities are numbers: a training 7 has the id 000000000007."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def train(self, number: int, curve: dict[int, float] | None = None, *, done: bool = True, config=None) -> str:
        cell = training_cell(self.path, f"{number:012x}")
        cell.create("training", config or {"optim": {"steps": 4}, "pooling": {"kind": "cls"}, "seed": 0})
        recorder = CellRecorder(cell.folder)
        recorder.event("attempt")
        for step, loss in (curve or {}).items():
            recorder.metrics({"train/loss": loss}, step)
        if done:
            cell.finish(2.5, metrics={}, model="model")
        return cell.id

    def evaluate(self, number: int, training: str, scores: dict | None, suite: dict = SUITE) -> str:
        cell = evaluation_cell(self.path, f"{number:012x}")
        cell.create("evaluation", {"training": training, "pooling": {"kind": "cls"}, "max_length": 64, "suite": suite})
        CellRecorder(cell.folder).event("attempt")
        if scores is not None:
            cell.finish(1.0, scores=scores)
        return cell.id

    def grid(self, name: str, rows: list[tuple], table: dict | None = None, baseline: str = "cls") -> GridRecord:
        """``rows``: (row, seed, training id, {suite: evaluation id})."""
        seen = dict.fromkeys((training, row, seed) for row, seed, training, _ in rows)
        record = GridRecord(
            name,
            f"Grid {name}",
            [TrainingRecord(*one) for one in seen],
            [RowRecord(row, seed, training, {}, row == baseline, ids) for row, seed, training, ids in rows],
            table,
        )
        record.save(self.path)
        return record

    def runs(self, uri: str | None, kind="training") -> dict:
        """The root's runs in a store by cell id, and its parents by `grid NAME`; each of them once."""
        found = runs_of_root(open_store(self.path, uri), kind).values()
        named = [(run.data.tags.get("lmk.cell") or f"grid {run.data.tags['lmk.grid']}", run) for run in found]
        assert [name for name, count in Counter(name for name, _ in named).items() if count > 1] == []
        return dict(named)

    def points(self, uri: str, run, name: str = "train/loss") -> list[tuple[int, float]]:
        history = open_store(self.path, uri).client.get_metric_history(run.info.run_id, name)
        return sorted((point.step, point.value) for point in history)

    def artifact(self, uri: str, run, name: str) -> str:
        return Path(open_store(self.path, uri).client.download_artifacts(run.info.run_id, name)).read_text()

    def marks(self, kind: str, identity: str) -> dict:
        return json.loads((self.path / kind / identity / "mlflow.json").read_text())


def scores(needle: float, words: float) -> dict:
    return {
        "Needle": {"main_score": needle, "ndcg_at_10": needle, "ndcg_at_10[quarter=1]": needle / 3},
        "Words": {"main_score": words, "ndcg_at_10": words},
    }


@pytest.fixture(autouse=True)
def _no_store_from_outside(monkeypatch):
    monkeypatch.delenv("LMK_STORE", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def root(tmp_path) -> Root:
    # A path that is hard to quote in a filter and in an address.
    return Root(tmp_path / "it's a root")


@pytest.fixture(scope="module")
def kept_root(tmp_path_factory) -> Root:
    """One for all tests of a module: with a database of its own, whose making takes seconds."""
    return Root(tmp_path_factory.mktemp("kept") / "it's a root")


@pytest.fixture
def make_root(tmp_path) -> Callable[[str], Root]:
    return lambda name: Root(tmp_path / name)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def make_scores() -> Callable[[float, float], dict]:
    return scores


@pytest.fixture(scope="session")
def uri(tmp_path_factory) -> str:
    """One SQLite store for the tests: creating one takes seconds, and roots must not mix anyway."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"


@pytest.fixture
def two_rows(root, make_scores) -> Root:
    """Two trainings, one of them read in two ways: the smallest grid with everything in it."""
    first = root.train(1, {1: 2.0, 2: 1.5})
    second = root.train(2, {1: 1.9, 2: 1.1})
    root.grid(
        "small",
        [
            ("cls", 0, first, {"tiny": root.evaluate(11, first, make_scores(0.1 + 0.2, 0.5))}),
            ("multicls", 0, first, {"tiny": root.evaluate(12, first, make_scores(1 / 3, 0.25))}),
            ("mean", 0, second, {"tiny": root.evaluate(13, second, make_scores(2 / 3, 1e-17))}),
        ],
    )
    return root
