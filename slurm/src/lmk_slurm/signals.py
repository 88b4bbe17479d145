"""What a scheduler's signals do to a job: it ends, and queues again where it is to go on.

submitit has a handler of its own, which is replaced: it takes every signal in a job of under ten minutes for the end of
its time, and calls a job that SLURM has queued again already a failure.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import FrameType
from typing import Literal

Cause = Literal["preempted", "time", "cancelled", "signal"]
"""Why a job was told to end: another job takes its place (or an administrator has queued it again), its time is nearly
up, somebody has cancelled it, or nobody knows."""

SIGNAL_VARIABLE = "LMK_SLURM_SIGNAL_SECONDS"
"""Set in a job's script: how long before its end it is signalled, in seconds."""
_SIGNALS = (signal.SIGUSR2, signal.SIGTERM)
_EARLY_SECONDS = 90.0
"""SLURM looks at times twice a minute only, and may signal a minute early."""
_TRIES = 10
_PAUSE_SECONDS = 3.0
_OTHERS_WAIT_SECONDS = 120.0

_GOES_ON = {"RUNNING", "SIGNALING", "SUSPENDED", "STOPPED", "RESIZING", "CONFIGURING", "STAGE_OUT"}
"""SLURM's words for a job that it has not ended. While it sends a signal it may say SIGNALING for a moment."""


class Interrupted(SystemExit):
    """A scheduler has told this job to end. The exit code is 128 and the signal's number."""

    def __init__(self, number: int, cause: Cause) -> None:
        super().__init__(128 + number)
        self.number = number
        self.cause: Cause = cause


def blocking(python: str) -> str:
    """The command that starts Python with these signals blocked, until there are handlers.

    Python takes seconds to start, and a signal in these seconds would kill it: the job would have failed, and nobody
    would queue it again. Where ``env`` cannot do that (coreutils before 8.32) the command stays as it is.
    """
    words = ["env", *(f"--block-signal={number.name.removeprefix('SIG')}" for number in _SIGNALS)]
    try:
        able = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0  # noqa: S603
    except OSError:
        able = False
    return " ".join([*words, python]) if able else python


@dataclass(frozen=True)
class _JobNow:
    """What the controller says of this job at the moment."""

    state: str
    reason: str
    preempted: bool
    restarts: int
    seconds_left: float | None


@contextmanager
def signals_of_the_scheduler() -> Generator[None]:
    """While this lasts, SIGUSR2 and SIGTERM end this job by raising :class:`Interrupted`; elsewhere it does nothing.

    Of the processes of one job the first asks SLURM to queue the job again, once, unless it does so anyway or somebody
    wants it to end; the others wait for their end. Whoever takes these signals later and has saved its work should call
    the handler that it has found.
    """
    identity = _identity()
    if identity is None or os.environ.get("SUBMITIT_EXECUTOR") != "slurm":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        yield
        return
    ending = False

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal ending
        if ending:
            return
        ending = True
        if int(os.environ.get("SLURM_PROCID", "0")):
            # It must not end before the first, which would take that one along (srun --kill-on-bad-exit).
            time.sleep(_OTHERS_WAIT_SECONDS)
            raise Interrupted(number, "signal")
        cause = _leave(identity, number)
        if cause is None:  # srun stops the processes beside one that failed, and their own errors come first
            _say(f"goes on after {signal.Signals(number).name}")
            ending = False
            return
        _say(f"ends on {signal.Signals(number).name} ({cause})")
        raise Interrupted(number, cause)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)  # see `blocking`: what came meanwhile comes now
        yield
    finally:
        for number, handler in before.items():
            # A second signal on the way out must not kill what is just being written.
            signal.signal(number, signal.SIG_IGN if ending else handler)


def _identity() -> str | None:
    """This job: of an array only its own task, whose plain number may be that of the whole array."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def _leave(identity: str, number: int) -> Cause | None:
    """Why the job ends; queues it again where that is up to the job. None where SLURM knows of no end."""
    for attempt in range(_TRIES):
        now = _look(identity)
        if now is None:  # a controller that restarts answers in a moment
            time.sleep(_PAUSE_SECONDS)
            continue
        if now.state not in _GOES_ON:  # SLURM has decided already
            _say(f"is {now.state} ({now.reason}, {now.restarts} restarts) by SLURM's words")
            if now.restarts > int(os.environ.get("SLURM_RESTART_COUNT", "0")) or now.preempted:
                return "preempted"
            return "time" if now.reason == "TimeLimit" else "cancelled"
        if number == signal.SIGTERM and not now.preempted:
            return None
        if _requeue(identity):
            early = float(os.environ.get(SIGNAL_VARIABLE, "120")) + _EARLY_SECONDS
            near = now.seconds_left is not None and now.seconds_left <= early
            return "time" if near and not now.preempted else "preempted"
        time.sleep(_PAUSE_SECONDS if attempt else 0.5)
    return "signal"


def _look(identity: str) -> _JobNow | None:
    text = _answer(["scontrol", "show", "job", "--oneliner", identity])
    fields = dict(word.split("=", 1) for word in (text or "").split() if "=" in word)
    if "JobState" not in fields:
        return None
    preempted = fields.get("PreemptTime", "None") not in ("None", "Unknown")
    restarts = fields.get("Restarts", "0")
    return _JobNow(
        fields["JobState"],
        fields.get("Reason", ""),
        preempted,
        int(restarts) if restarts.isdigit() else 0,
        _until(fields.get("EndTime", "")),
    )


def _until(text: str) -> float | None:
    try:
        return (datetime.fromisoformat(text) - datetime.now()).total_seconds()
    except ValueError:
        return None


def _requeue(identity: str) -> bool:
    return _answer(["scontrol", "requeue", identity]) is not None


def _answer(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        _say(f"{' '.join(command)}: {done.stderr.strip()}")
        return None
    return done.stdout


def _say(text: str) -> None:
    print(f"lmk_slurm: this job on {socket.gethostname()} {text}", file=sys.stderr, flush=True)
