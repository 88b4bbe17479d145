"""What runs in the process of a job: the one function that submitit pickles, and the local launcher's guard."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from lmk_slurm.signals import signals_of_the_scheduler

PARENT_VARIABLE = "LMK_SLURM_PARENT"
"""`<pid>:<grace seconds>`, set by the local launcher alone: a job of a scheduler outlives whoever submitted it."""

_LOOK_SECONDS = 0.5


def call(function: str, argument: str) -> None:
    """Runs `package.module:attribute` with one string. This is all that a submitit pickle of ours refers to."""
    with _guarded(), signals_of_the_scheduler():
        module, _, attribute = function.partition(":")
        target: Any = functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
        target(argument)


def _again(function: str, argument: str) -> Any:
    """What submitit submits anew when a signal comes before our own handler is there: the same call.

    The job itself finds what it has saved, as it must after a lost node, of which nobody is told.
    """
    from submitit.core.utils import DelayedSubmission

    return DelayedSubmission(call, function, argument)


call.checkpoint = _again  # ty: ignore[missing-attribute]


@contextmanager
def _guarded() -> Generator[None, None, None]:
    # Taken out of the environment, so that nothing this job starts (a scheduler's job even) inherits the guard.
    value = os.environ.pop(PARENT_VARIABLE, "")
    if not value:
        yield
        return
    pid, _, grace = value.partition(":")
    # Started from a script's background job, a process ignores SIGINT, and then nothing could interrupt it gently.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # submitit logs SIGTERM and goes on, because a scheduler sends it before a requeue; here it means stop.
    signal.signal(signal.SIGTERM, _terminate)
    parent = int(pid)
    threading.Thread(target=_watch, args=(parent, float(grace)), name="lmk-slurm-parent", daemon=True).start()
    try:
        yield
    finally:
        if os.getppid() != parent:
            _kill_group()  # nobody is left to stop what this job has started


def _watch(parent: int, grace: float) -> None:
    """Stops this process when the one that started it is gone: an orphan gets a new parent, on Linux and macOS."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    print("lmk_slurm: the process that started this job is gone; stopping", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(grace)
    _kill_group()


def _kill_group() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
