"""The `lmk` command in this process, and the helpers of these tests on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lmk_experiments.cli.main import app

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def lmk(tmp_path: Path) -> Callable[..., Result]:
    def run(*arguments: Any) -> Result:
        words = [str(argument) for argument in arguments]
        if words[1] == "build":
            words += ["--root", str(tmp_path / "runs")]
        return CliRunner().invoke(app, words, catch_exceptions=False)

    return run
