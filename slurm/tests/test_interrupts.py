"""What is left when the caller is interrupted or killed: nothing that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_slurm import Job, JobResult, JobsInterrupted, JobState, LocalLauncher, run_jobs

Make = Callable[..., Job]
QUICK = 0.02
WAIT_SECONDS = 60

CALLER = """
import signal, sys
from pathlib import Path
from lmk_slurm import Job, LocalLauncher, run_jobs

signal.signal(signal.SIGINT, signal.default_int_handler)
folder, function, grace = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
jobs = [
    Job(name=name, function="slurm_job_functions:" + function, argument=str(folder / name),
        logs=folder / name / "logs", done=(folder / name / "DONE",))
    for name in ("one", "two", "three")
]
def show(name, result):
    print(name, result.state, flush=True)
try:
    run_jobs(jobs, at_once=2, poll_seconds=0.1, on_change=show, launcher=LocalLauncher(grace_seconds=grace))
except KeyboardInterrupt as error:
    print("left:", *[str(result.state) for result in error.results.values()], flush=True)
"""


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s: {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process can still do anything: a zombie that nobody has reaped yet cannot."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            state = stat.read_text().rpartition(")")[2]
        except OSError:
            return False
    else:
        command = ["ps", "-o", "stat=", "-p", str(pid)]
        state = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and state.strip()[0] not in "ZX"


def read_pid(path: Path) -> int:
    wait_until(path.exists, f"{path} does not appear")
    return int(path.read_text())


@pytest.fixture
def start(tmp_path: Path):
    """Starts a process that runs three jobs, two at a time; the ids of the two that run, once they write."""
    started: list[subprocess.Popen[str]] = []

    def start_caller(function: str, grace: float) -> tuple[subprocess.Popen[str], list[int]]:
        for name in ("one", "two", "three"):
            (tmp_path / name).mkdir()
        command = [sys.executable, "-c", textwrap.dedent(CALLER), str(tmp_path), function, str(grace)]
        caller = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(caller)
        return caller, [read_pid(tmp_path / name / "pid") for name in ("one", "two")]

    yield start_caller
    for caller in started:
        caller.kill()
        caller.communicate()


def test_ctrl_c_stops_the_children_gently_and_returns(start, tmp_path: Path) -> None:
    caller, children = start("beat", 30)
    others = [read_pid(tmp_path / name / "other.pid") for name in ("one", "two")]
    # To the whole group, as a terminal does.
    os.killpg(caller.pid, signal.SIGINT)
    output, _ = caller.communicate(timeout=60)
    assert caller.returncode == 0
    assert "left: cancelled cancelled cancelled" in output
    assert "three running" not in output
    assert not any(is_alive(pid) for pid in children + others)
    assert all((tmp_path / name / "tidied").exists() for name in ("one", "two"))


def test_ctrl_c_ends_children_that_ignore_it(start) -> None:
    caller, children = start("beat_on", 0.2)
    caller.send_signal(signal.SIGINT)
    output, _ = caller.communicate(timeout=60)
    assert "left: cancelled cancelled cancelled" in output
    assert not any(is_alive(pid) for pid in children)


def test_a_second_ctrl_c_cuts_the_grace_period_short(start) -> None:
    caller, children = start("beat_on", 600)
    finished = threading.Event()

    def insist() -> None:
        while not finished.wait(0.3):
            caller.send_signal(signal.SIGINT)

    thread = threading.Thread(target=insist)
    thread.start()
    try:
        # Its exit code is left open: one more Ctrl-C may well have hit it after the children were gone.
        caller.communicate(timeout=60)
    finally:
        finished.set()
        thread.join()
    assert not any(is_alive(pid) for pid in children)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_caller_stops_its_children(start, tmp_path: Path, number: int) -> None:
    caller, children = start("beat", 30)
    caller.send_signal(number)
    caller.communicate(timeout=60)
    assert caller.returncode == 128 + number
    assert not any(is_alive(pid) for pid in children)
    assert (tmp_path / "one" / "tidied").exists()


def test_the_children_of_a_killed_caller_stop_writing(start, tmp_path: Path) -> None:
    caller, children = start("beat", 30)
    others = [read_pid(tmp_path / name / "other.pid") for name in ("one", "two")]
    caller.kill()
    caller.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in children + others), "the children live on")
    assert (tmp_path / "one" / "tidied").exists(), "they could tidy up"
    log = (tmp_path / "one" / "logs" / "1_0_log.out").read_text()
    assert "the process that started this job is gone" in log


def test_stubborn_children_of_a_killed_caller_are_killed(start) -> None:
    caller, children = start("beat_on", 0.2)
    caller.kill()
    caller.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in children), "the children live on")
    assert children
    assert not any(is_alive(pid) for pid in children)


def test_an_interrupt_from_a_callback_has_the_results(make: Make) -> None:
    first, second, third = make("first"), make("second", "finish_when_interrupted"), make("third", "beat")

    def tick() -> None:
        # The three start together: on a quiet machine the others may be up before the first is done.
        if not first.missing() and all((Path(job.argument) / "pid").exists() for job in (second, third)):
            raise KeyboardInterrupt

    with pytest.raises(JobsInterrupted) as caught:
        run_jobs([first, second, third], at_once=3, poll_seconds=QUICK, tick=tick)
    states = {name: result.state for name, result in caught.value.results.items()}
    # The second had done its work by the time it stopped, and its marker says so.
    assert states == {"first": JobState.DONE, "second": JobState.DONE, "third": JobState.CANCELLED}
    assert caught.value.results["third"].reason == "interrupted"
    assert caught.value.results["third"].log == third.logs / "1_0_log.out"
    assert not is_alive(read_pid(Path(third.argument) / "pid"))


def test_an_error_in_a_callback_leaves_no_child(make: Make) -> None:
    job = make("beats", "beat_on")

    def tick() -> None:
        if (Path(job.argument) / "pid").exists():
            raise OSError("the display is gone")

    with pytest.raises(OSError, match="the display is gone"):
        run_jobs([job], poll_seconds=QUICK, tick=tick, launcher=LocalLauncher(grace_seconds=0.1))
    assert not is_alive(read_pid(Path(job.argument) / "pid"))


def test_jobs_run_from_a_thread_too(make: Make) -> None:
    results: dict[str, JobResult] = {}
    thread = threading.Thread(target=lambda: results.update(run_jobs([make("one")], poll_seconds=QUICK)))
    thread.start()
    thread.join()
    assert results["one"].state is JobState.DONE


def test_the_handlers_of_the_caller_are_put_back(make: Make) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    run_jobs([make("one")], poll_seconds=QUICK)
    assert [signal.getsignal(number) for number in numbers] == before
