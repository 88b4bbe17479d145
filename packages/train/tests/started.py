"""Starts scripts as the two processes of a process group."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import torch


def run_pair(worker: Path, folder: Path, *arguments: str) -> list[dict]:
    """Runs a script as two processes and returns what each of them wrote."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, str(worker)]
    pair = [
        subprocess.Popen([*command, str(rank), port, str(folder), *arguments], stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    errors = [process.communicate(timeout=240)[1] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], "\n".join(errors)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
