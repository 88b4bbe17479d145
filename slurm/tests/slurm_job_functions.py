"""What the jobs of the tests do. Imported by the children, so it needs the standard library only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WAIT_SECONDS = 60


def _note(folder: Path, event: str) -> None:
    with (folder.parent / "order").open("a") as file:
        file.write(f"{event} {folder.name}\n")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.02)


def finish(argument: str) -> None:
    folder = Path(argument)
    _note(folder, "start")
    (folder / "DONE").touch()
    _note(folder, "end")


def meet(argument: str) -> None:
    """Ends only when two of these run at the same time."""
    folder = Path(argument)
    _note(folder, "start")
    deadline = time.monotonic() + WAIT_SECONDS
    while (folder.parent / "order").read_text().count("start") < 2:
        if time.monotonic() > deadline:
            raise TimeoutError("alone")
        time.sleep(0.02)
    (folder / "DONE").touch()
    _note(folder, "end")


def fail(argument: str) -> None:
    print("about to fail")
    try:
        raise KeyError("a handled error")
    except KeyError as error:
        raise ValueError("the loss is nan\nsecond line of the message") from error


def forget(argument: str) -> None:
    """Ends well, but without the marker."""
    print("nothing to do")


def finish_and_fail(argument: str) -> None:
    (Path(argument) / "DONE").touch()
    raise RuntimeError("after the work was done")


def die(argument: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def show_environment(argument: str) -> None:
    folder = Path(argument)
    names = ("LMK_TEST_VALUE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LMK_SLURM_PARENT")
    (folder / "values").write_text("\n".join(f"{name}={os.environ.get(name)}" for name in names))
    (folder / "DONE").touch()


def print_and_wait(argument: str) -> None:
    folder = Path(argument)
    print("to the output")
    print("to the errors", file=sys.stderr)
    (folder / "printed").touch()
    wait_for(folder / "release")
    (folder / "DONE").touch()


def beat(argument: str) -> None:
    """Writes for ever, with a process of its own; tidies up when it is interrupted."""
    folder = Path(argument)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / "other.pid").write_text(str(other.pid))
    try:
        _beat(folder)
    finally:
        (folder / "tidied").touch()


def beat_on(argument: str) -> None:
    """Writes for ever and cannot be interrupted or terminated."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _beat(Path(argument))


def finish_when_interrupted(argument: str) -> None:
    try:
        _beat(Path(argument))
    except KeyboardInterrupt:
        (Path(argument) / "DONE").touch()


def _beat(folder: Path) -> None:
    (folder / "pid.new").write_text(str(os.getpid()))
    (folder / "pid.new").rename(folder / "pid")
    while True:
        with (folder / "beats").open("a") as file:
            file.write("x")
        time.sleep(0.02)
