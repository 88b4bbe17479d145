"""Keep syncing: one watcher a root, and a word only where something has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from lmk_experiments.mirror.lock import LockedError, locked
from lmk_experiments.mirror.store import StoreError
from lmk_experiments.mirror.sync import SyncReport

LOCK = "mlflow-watch.lock"
SECONDS = 10.0
"""Between two syncs, unless said."""
_SHARE = 3
"""A sync of many cells takes a while: the pause is at least so many times as long."""


class Said:
    """What was said of the store's trouble, so that it is said once, and its end once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.away = False
        self.warnings: set[str] = set()

    def failed(self, error: Exception) -> None:
        """A sync failed; the reason is told of the first of several in a row."""
        if not self.away:
            self.say(f"warning: not mirrored to MLflow now ({error}); `lmk sync` does it later")
        self.away = True

    def went(self, warnings: Collection[str]) -> None:
        """A sync came through, with these warnings; those of the sync before are not told again."""
        if self.away:
            self.say("the MLflow store answers again")
        self.away = False
        for warning in warnings:
            if warning not in self.warnings:
                self.say(f"warning: {warning}")
        self.warnings = set(warnings)


def watch(
    root: Path,
    sync: Callable[[], SyncReport],
    *,
    say: Callable[[str], None],
    warn: Callable[[str], None],
    seconds: float = SECONDS,
) -> None:
    """Call ``sync`` every ``seconds`` until interrupted, saying what changed.

    Args:
        sync: one sync of the root. It may say what it did to single runs by itself.
        warn: told of trouble once, and once when it is over.

    Raises:
        LockedError: another process watches this root; the message names its user, host and process.
        ValueError: the first sync raised it: what was asked for is wrong.
    """
    with locked(root / LOCK, wait_seconds=0.0, what=f"the watch of {root}"):
        said, first = Said(warn), True
        while True:
            began = time.monotonic()
            try:
                report = sync()
                said.went(report.warnings)
                if first or report.writes:
                    say(str(report))
            except LockedError:  # somebody else syncs just now, which serves as well
                pass
            except (StoreError, OSError) as error:
                said.failed(error)
            except ValueError as error:
                if first:
                    raise
                said.failed(error)  # a grid that is just being written anew
            # The first one also imports MLflow and may make a database, which no later one does.
            time.sleep(seconds if first else max(seconds, _SHARE * (time.monotonic() - began)))
            first = False
