"""A run that is interrupted, and a run over records that were damaged since."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lmk_experiments.records import Cell, load_grid

Lmk = Callable[..., subprocess.CompletedProcess[str]]


def test_an_interrupted_run_says_how_it_goes_on(tmp_path: Path, mini: Callable[..., Path]) -> None:
    command = [sys.executable, "-m", "lmk_experiments.cli.main", "run", str(mini(tmp_path))]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        seen = []
        for line in running.stdout:
            seen.append(line)
            if "started (" in line:
                break
        assert running.poll() is None, "".join(seen)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 130
    assert errors.splitlines()[-1] == "interrupted; the same command goes on where it stopped"
    assert "Traceback" not in errors


def test_cells_whose_done_file_was_damaged_are_done_again(finished: Path, lmk: Lmk, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    root = folder / "runs"
    row = load_grid(root, "mini").rows[1]
    damaged = [
        Cell(root / "trainings" / row.training),
        Cell(root / "evaluations" / row.evaluations["short"]),
    ]
    for cell in damaged:
        (cell.folder / "DONE.json").write_text('{"schema": 1, "ki')
    status = lmk("status", "mini", cwd=folder).stdout
    assert "11 of 13 cells done" in status
    assert "failed (DONE.json cannot be read" in status
    again = lmk("run", "mini.yaml", cwd=folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "everything is done already" not in again.stdout
    assert again.stderr.count("DONE.json cannot be read") == 2
    assert "| cls" in again.stdout
    for cell in damaged:
        assert cell.state().name == "done"
        assert (cell.folder / "DONE.json.unreadable").exists()
        assert cell.state().attempts == 2
    assert "13 of 13 cells done" in lmk("status", "mini", cwd=folder).stdout
