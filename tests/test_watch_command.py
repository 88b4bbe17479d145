"""`lmk sync --watch`: one watcher a root, changes only, a clean end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from live_cells import Root

from lmk_experiments.records.tickets import user_name

PATIENCE_SECONDS = 300.0


def start(root: Root) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lmk_experiments.cli.main", "sync", "--watch", "--every", "1"]
    with (root.path / "said").open("a") as said:
        return subprocess.Popen(
            [*command, "--root", str(root.path), "--store", root.store],
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"},
        )


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_one_watcher_follows_a_root_and_says_changes_only(tmp_path: Path) -> None:
    root = Root(tmp_path / "runs", f"sqlite:///{tmp_path}/mlflow.db")
    said = root.path / "said"
    with start(root) as watcher:
        try:
            until(lambda: "0 created, 0 updated, 0 unchanged, 1 not started" in said.read_text())
            second = start(root)
            assert second.wait(PATIENCE_SECONDS) == 1
            held = f"held by process {watcher.pid} of {user_name()} on {socket.gethostname()} since 2"
            assert held in said.read_text()
            before = said.read_text().count("\n")
            with root.start():
                pass
            until(lambda: "row0: finished" in said.read_text())
            time.sleep(3)
            after = said.read_text().splitlines()[before:]
            watcher.send_signal(signal.SIGINT)
            assert watcher.wait(PATIENCE_SECONDS) == 0
        finally:
            watcher.kill()
    # A slow job may have been seen while it ran.
    (finished,) = (number for number, line in enumerate(after) if line.endswith("row0: finished"))
    assert len(after[finished + 1 :]) <= 1, "beside the counts of that sync nothing is said where nothing changes"
    assert said.read_text().splitlines()[-1].startswith("watching ended")
    assert (root.path / "mlflow-watch.lock").read_text() == ""


def test_a_watcher_says_once_that_the_server_is_away(tmp_path: Path) -> None:
    root = Root(tmp_path / "runs", "http://127.0.0.1:9")
    said = root.path / "said"
    with start(root) as watcher:
        try:
            until(lambda: "not mirrored to MLflow now" in said.read_text())
            time.sleep(5)
        finally:
            watcher.terminate()
        assert watcher.wait(PATIENCE_SECONDS) == 0
    assert said.read_text().count("not mirrored to MLflow now") == 1
    assert (root.path / "mlflow-watch.lock").read_text() == ""
