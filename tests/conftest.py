"""A small grid on the smallest built data, run once for all tests that only look at it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))  # helpers of several test files stand beside them
from browsing import Browser, chromium
from mlflow_server import Server, mlflow_server

GRID = {
    "grid": "mini",
    "title": "A mini grid",
    "base": ["preset.yaml"],
    "train": [
        {"row": "untrained", "pooling": {"kind": "mean"}, "optim": {"steps": 0}},
        {"row": "cls", "pooling": {"kind": "cls"}, "baseline": True},
        {"row": "lmk-var", "pooling": {"kind": "landmark", "granularity": [8, 16]}},
    ],
    "evaluate": {
        "suites": [
            {"name": "short", "tasks": [{"name": "functions", "folder": "built:quickstart-tiny/eval/short"}]},
            {
                "name": "long",
                "tasks": [
                    {"name": "long-512", "folder": "built:quickstart-tiny/eval/long-512", "group_by": "quarter"},
                ],
            },
        ],
        "max_length": {"default": 64, "long": 512},
        "views": [
            {"of": "*", "except": ["lmk-var"]},
            {"of": "cls", "row": "multicls", "pooling": {"kind": "multi_cls", "every": 16}},
            {"of": "lmk-var", "row": "lmk-var-{g}", "pooling": {"granularity": "{g}"}, "for": {"g": [8, 16]}},
        ],
    },
}
PRESET = {
    "model": {"path": "built:quickstart-tiny/model"},
    "pooling": {"kind": "cls"},
    "data": {
        "train": ["built:quickstart-tiny/train.jsonl"],
        "validation": "built:quickstart-tiny/validation.jsonl",
        "negatives": 1,
        "query_max_length": 32,
        "passage_max_length": 32,
    },
    "optim": {"steps": 6, "batch_size": 8, "learning_rate": 0.001},
    "precision": "fp32",
    "runtime": {"threads": 1, "log_every": 2},
}

Lmk = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def lmk() -> Lmk:
    """Run the ``lmk`` command in a folder and wait for it."""

    def call(
        *arguments: str | Path, cwd: Path, timeout: float = 1800, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "lmk"), *map(str, arguments)]
        return subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**os.environ, **(environment or {})},
        )

    return call


def write_grid(folder: Path, **changes: object) -> Path:
    """The mini grid as files in ``folder``; returns the grid's file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preset.yaml").write_text(yaml.safe_dump(PRESET, sort_keys=False))
    (folder / "mini.yaml").write_text(yaml.safe_dump({**GRID, **changes}, sort_keys=False))
    return folder / "mini.yaml"


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make the mini grid's files in a folder."""
    return write_grid


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, lmk: Lmk) -> Path:
    """A folder whose ``runs`` hold the mini grid, run to its table; ``first.txt`` is what the command printed."""
    folder = tmp_path_factory.mktemp("finished")
    done = lmk("run", write_grid(folder), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "first.txt").write_text(done.stdout)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    """A window of a real Chromium."""
    with chromium(tmp_path_factory.mktemp("profile")) as window:
        yield window


@pytest.fixture(scope="session")
def testbed() -> Path:
    """A SLURM that answers: the one of ``SLURM_CONF``, else this repository's testbed. Returns its configuration."""
    own = Path(__file__).parent.parent / "slurm" / "testbed" / "cluster" / "etc" / "slurm.conf"
    config = Path(os.environ.get("SLURM_CONF", own))
    # Without the file every command of SLURM would look for it for a minute.
    if config.exists():
        os.environ["SLURM_CONF"] = str(config)
        done = subprocess.run(["scontrol", "ping"], capture_output=True, check=False, timeout=60)
        if done.returncode == 0:
            return config
    pytest.skip("no SLURM answers; start the testbed with: make slurm-up")


@pytest.fixture(scope="session")
def only_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """The one process behind ``tracking_server``: it takes seconds to start."""
    folder = tmp_path_factory.mktemp("server")
    with mlflow_server(f"sqlite:///{folder}/server.db", folder / "artifacts") as server:
        yield server


@pytest.fixture
def tracking_server(only_server: Server) -> Server:
    """A real MLflow server on a database of its own, started again where a test before this one has left it dead."""
    if only_server.process is None or only_server.process.poll() is not None:
        only_server.start()
    return only_server
