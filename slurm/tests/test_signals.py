"""What a job makes of a scheduler's signals. `scontrol` is a script that says what SLURM 22.05 was seen to say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lmk_slurm.signals import Interrupted, blocking, signals_of_the_scheduler

Job = Callable[..., Path]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Job]:
    """This process is a job of SLURM of which `scontrol` says what it is told to; returns the file of its calls."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    monkeypatch.setenv("SLURM_JOB_ID", "17")  # of the last task of an array it is the number of the whole array
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "17")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def make(state: str = "RUNNING", *, minutes: float = 60, requeue: str = "exit 0", **fields: str) -> Path:
        ends = (datetime.now() + timedelta(minutes=minutes)).isoformat(timespec="seconds")
        said = {"JobState": state, "Reason": "None", "Restarts": "0", "EndTime": ends, "PreemptTime": "None", **fields}
        text = " ".join(f"{key}={value}" for key, value in said.items())
        calls = tmp_path / "calls"
        calls.write_text("")
        body = f'#!/bin/sh\necho "$@" >> {calls}\ncase $1 in show) echo "JobId=17 {text}";; requeue) {requeue};; esac\n'
        (tmp_path / "scontrol").write_text(body)
        (tmp_path / "scontrol").chmod(0o755)
        return calls

    yield make
    for number, handler in before.items():
        signal.signal(number, handler)


def requeues(calls: Path) -> int:
    return calls.read_text().count("requeue 17_3\n")


@pytest.mark.parametrize(
    ("fields", "number", "cause", "asked"),
    [
        ({"minutes": 2}, signal.SIGUSR2, "time", 1),
        ({"minutes": 50}, signal.SIGUSR2, "preempted", 1),
        # The controller is not yet done with sending the signal that the job obeys already.
        ({"state": "SIGNALING", "minutes": 2}, signal.SIGUSR2, "time", 1),
        ({"state": "STOPPED", "minutes": 50}, signal.SIGUSR2, "preempted", 1),
        # Ten minutes and less are no end of time to this handler, as they are to submitit's.
        ({"minutes": 0.3, "PreemptTime": "2026-01-01T00:00:00"}, signal.SIGUSR2, "preempted", 1),
        ({"PreemptTime": "2026-01-01T00:00:00"}, signal.SIGTERM, "preempted", 1),
        # SLURM has decided already, and asking once more would be an error.
        ({"state": "COMPLETING", "Restarts": "1"}, signal.SIGTERM, "preempted", 0),
        ({"state": "PENDING", "Restarts": "1"}, signal.SIGUSR2, "preempted", 0),
        ({"state": "COMPLETING", "PreemptTime": "2026-01-01T00:00:00"}, signal.SIGUSR2, "preempted", 0),
        ({"state": "COMPLETING", "Reason": "TimeLimit"}, signal.SIGTERM, "time", 0),
        ({"state": "COMPLETING"}, signal.SIGTERM, "cancelled", 0),
    ],
)
def test_why_a_job_ends_and_who_queues_it_again(job: Job, fields: dict, number: int, cause: str, asked: int) -> None:
    calls = job(**fields)
    with pytest.raises(Interrupted) as caught, signals_of_the_scheduler():
        os.kill(os.getpid(), number)
    assert (caught.value.code, caught.value.cause) == (128 + number, cause)
    assert requeues(calls) == asked


def test_a_job_is_queued_again_once_however_many_signals_come(job: Job) -> None:
    calls = job()

    def told_twice() -> None:
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGUSR2)

    with pytest.raises(Interrupted), signals_of_the_scheduler():
        told_twice()
    assert requeues(calls) == 1
    os.kill(os.getpid(), signal.SIGTERM)  # on the way out of the process: kills nothing that is being written


def test_a_step_that_srun_ends_is_no_end_of_the_job(job: Job) -> None:
    """srun stops the processes beside one that failed; what failed is told by them, and not by this signal."""
    calls = job()
    with signals_of_the_scheduler():
        os.kill(os.getpid(), signal.SIGTERM)
    assert requeues(calls) == 0


def test_a_controller_that_restarts_is_asked_again(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmk_slurm.signals._PAUSE_SECONDS", 0.01)
    refuse = f'[ -e {tmp_path}/up ] || {{ touch {tmp_path}/up; echo "cannot contact" >&2; exit 1; }}'
    calls = job(requeue=refuse)
    with pytest.raises(Interrupted), signals_of_the_scheduler():
        os.kill(os.getpid(), signal.SIGUSR2)
    assert requeues(calls) == 2, "refused, and then taken"


def test_a_signal_before_there_are_handlers_waits_for_them(job: Job) -> None:
    """As `env --block-signal` starts a job: it would have been killed while it imported."""
    calls = job(minutes=2)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
    try:
        # To this thread: others of the test process do not block it, and it would end there.
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
        assert requeues(calls) == 0
        with pytest.raises(Interrupted) as caught, signals_of_the_scheduler():
            pytest.fail("the signal was lost")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert (caught.value.cause, requeues(calls)) == ("time", 1)


def test_a_process_starts_with_the_signals_blocked() -> None:
    code = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    said = subprocess.run(f"{blocking(sys.executable)} -c '{code}'", shell=True, capture_output=True, text=True)
    assert said.stdout.split() == ["[<Signals.SIGUSR2:", "12>,", "<Signals.SIGTERM:", "15>]"]


def test_outside_of_a_job_signals_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    with signals_of_the_scheduler():
        assert signal.getsignal(signal.SIGTERM) is before
