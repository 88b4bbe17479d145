"""Profiles without a scheduler: what a plan shows of them, and the profile that is this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

Lmk = Callable[..., subprocess.CompletedProcess[str]]


def test_the_plan_shows_what_sbatch_would_be_given(
    finished: Path, mini: Callable[..., Path], tmp_path: Path, lmk: Lmk
) -> None:
    grid = mini(tmp_path)
    not_built = lmk("plan", grid, "--show", cwd=tmp_path)
    assert not_built.returncode == 2
    assert "lmk data build quickstart-tiny" in not_built.stderr
    shutil.copytree(finished / "runs" / "built", tmp_path / "runs" / "built")
    shown = lmk("plan", grid, "--show", "--profile", "h100", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("sbatch is given this text") == 3
    assert "#SBATCH --gres=gpu:h100:1" in shown.stdout
    assert "aftercorr:<array 1>" in shown.stdout
    assert not list((tmp_path / "runs").glob("trainings/*")), "it writes nothing"


def test_the_local_profile_runs_the_grid_here(finished: Path, lmk: Lmk) -> None:
    done = lmk("submit", "mini.yaml", "--profile", "local", cwd=finished)
    assert done.returncode == 0, done.stderr
    assert "profile local is this machine" in done.stdout
    assert "everything is done already" in done.stdout


def test_an_unknown_profile_is_told_with_the_valid_ones(finished: Path, lmk: Lmk) -> None:
    said = lmk("submit", "mini.yaml", "--profile", "h10", cwd=finished)
    assert said.returncode == 2
    assert "no such profile; did you mean 'h100'? Valid: h100, h100-preempt, local, testbed" in said.stderr
