from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_slurm import Job


@pytest.fixture(autouse=True)
def _children_find_the_job_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Job]:
    """Makes a job whose argument is its own folder and whose marker is DONE in it."""

    def make_job(name: str, function: str = "finish", **options) -> Job:
        folder = tmp_path / "a folder with spaces" / name
        folder.mkdir(parents=True, exist_ok=True)
        options = {"logs": folder / "logs", "done": (folder / "DONE",), "argument": str(folder), **options}
        return Job(name=name, function=f"slurm_job_functions:{function}", **options)

    return make_job
