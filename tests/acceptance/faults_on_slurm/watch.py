"""``lmk status`` all the while: it must never say done of what is not."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from fault_grid import NAME

from lmk_experiments.cli.show_status import status_json
from lmk_experiments.records import load_grid
from lmk_experiments.submit.states import grid_states

LOOK_SECONDS = 0.7
COMMAND_SECONDS = 15.0


class Watch:
    """Looks from a thread: what the command does, in this process, and now and then the command itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lies: list[str] = []
        self.words: dict[str, int] = {}
        self.looks = self.commands = 0
        self.last: dict[str, Any] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> dict[str, Any]:
        """One look, checked at both ends."""
        before = self._done()
        said = status_json(load_grid(self.root, NAME), grid_states(load_grid(self.root, NAME), self.root))
        self._check(before, said)
        return said

    def _run(self) -> None:
        next_command = time.monotonic()
        while not self._stop.is_set():
            try:
                if time.monotonic() >= next_command:
                    next_command = time.monotonic() + COMMAND_SECONDS
                    self._command()
                self.look()
            except Exception as error:  # noqa: BLE001 - a look that fails is a finding, not the end of the looking
                self.lies.append(f"status failed: {type(error).__name__}: {error}")
            self._stop.wait(LOOK_SECONDS)

    def _command(self) -> None:
        before = self._done()
        command = [sys.executable, "-m", "lmk_experiments.cli.main", "status", NAME, "--json", "--root", str(self.root)]
        said = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        if said.returncode:
            self.lies.append(f"lmk status: {said.stderr[-300:]}")
            return
        self._check(before, json.loads(said.stdout))
        self.commands += 1

    def _done(self) -> set[str]:
        return {path.parent.name for path in self.root.glob("*/*/DONE.json")}

    def _check(self, before: set[str], said: dict[str, Any]) -> None:
        after = self._done()
        shown = {cell["id"] for cell in said["cells"] if cell["state"] == "done"}
        self.lies += [f"done was said of {cell}" for cell in shown - after]
        self.lies += [f"done was not said of {cell}" for cell in before - shown]
        for cell in said["cells"]:
            word = cell["state"] if cell["state"] in ("done", "running") else f"{cell['state']} ({cell['reason'][:60]})"
            self.words[word] = self.words.get(word, 0) + 1
        self.looks += 1
        self.last = said
