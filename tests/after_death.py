"""What a test has started ends with it, even where the test itself is killed at once."""

from __future__ import annotations

import contextlib
import os
import subprocess
from signal import SIGKILL

_WATCH = 'tail --pid="$1" -f /dev/null; eval "$2"'


class AfterDeath:
    """A process that waits for the end of this one, and then runs a command of the shell.

    It is in a session of its own, so that what kills a test run and its group leaves it alone.
    """

    def __init__(self, command: str) -> None:
        self._watcher = subprocess.Popen(
            ["sh", "-c", _WATCH, "after-death", str(os.getpid()), command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def dismiss(self) -> None:
        """It is not needed any more: what was started has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._watcher.pid, SIGKILL)
        self._watcher.wait()
