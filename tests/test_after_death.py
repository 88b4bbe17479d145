"""A test run that is killed at once leaves no PostgreSQL and no server behind."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from postgres import NEEDS_POSTGRES

HERE = Path(__file__).parent
CLUSTER = (
    "from postgres import postgres\nwith postgres() as running:\n    print(running.folder, flush=True)\n    input()\n"
)
SLEEPER = (
    "import subprocess\nfrom after_death import AfterDeath\n"
    "one = subprocess.Popen(['sleep', '600'])\nwatcher = AfterDeath(f'kill -KILL {one.pid}')\n"
    "print(one.pid, flush=True)\ninput()\n"
)


def said_before_it_was_killed(program: str) -> str:
    """The first line of a program, which is killed when it has said it."""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        line = started.stdout.readline().strip()
        started.kill()
    assert line
    return line


def becomes(true: Callable[[], bool], seconds: float = 120) -> bool:
    """Whether it is true before long."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.2)
    return true()


def test_a_process_ends_when_the_one_that_started_it_is_killed() -> None:
    pid = int(said_before_it_was_killed(SLEEPER))
    assert becomes(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


@NEEDS_POSTGRES
def test_a_cluster_and_its_folder_are_gone_when_the_test_run_is_killed() -> None:
    folder = Path(said_before_it_was_killed(CLUSTER))
    assert folder.name.startswith("pg-")

    def servers() -> list[int]:
        found = psutil.process_iter(["cmdline"])
        return [one.pid for one in found if str(folder / "data") in (one.info["cmdline"] or [])]

    assert becomes(lambda: not folder.exists())
    assert becomes(lambda: not servers())
