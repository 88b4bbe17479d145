"""What is done to the testbed: its daemons are killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

TESTBED = Path(__file__).resolve().parents[3] / "slurm" / "testbed"
PATIENCE_SECONDS = 90.0


def command(*words: str, check: bool = True) -> str:
    """The output of one of SLURM's commands."""
    return subprocess.run(words, capture_output=True, text=True, check=check).stdout


def root() -> Path:
    return Path(os.environ["SLURM_CONF"]).parent.parent


def kill(name: str) -> None:
    """kill -9 of a daemon of this testbed, by the number that was noted when it was started."""
    os.kill(_pid(name), signal.SIGKILL)


def start(name: str) -> None:
    """The daemon again, noted for ``down.sh``."""
    words = {"slurmctld": ["slurmctld", "-D"], "slurmdbd": ["slurmdbd", "-D"]}.get(
        name, [str(TESTBED / "node.sh"), name.removeprefix("slurmd-")]
    )
    with (root() / "log" / f"{name}.again.out").open("a") as out:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    with (root() / "pids").open("a") as file:
        file.write(f"{process.pid} {name}\n")


def mend() -> None:
    """Starts every daemon that is not there, and gives every node back."""
    names = ["slurmdbd", "slurmctld", *(f"slurmd-n{number}" for number in range(1, 5))]
    for name in names:
        try:
            os.kill(_pid(name), 0)
        except ProcessLookupError:
            start(name)
    until(lambda: "UP" in command("scontrol", "ping", check=False))
    command("scontrol", "update", "nodename=n[1-4]", "state=resume", check=False)
    idle_nodes()


def idle_nodes() -> None:
    """Waits until every node takes jobs again."""
    until(lambda: len(command("sinfo", "-h", "-N", "-p", "main", "-t", "idle,mix,alloc", "-o", "%N").split()) == 4)


def push_out(nodes: int = 4, seconds: int = 6) -> list[str]:
    """Jobs of the partition that pushes out others, one on each node; their numbers."""
    words = ["sbatch", "--parsable", "-p", "high", "--exclusive", "--time=5", "--output=/dev/null"]
    return [command(*words, "-w", f"n{number}", f"--wrap=sleep {seconds}").strip() for number in range(1, nodes + 1)]


def small_disk(node: str, folder: Path, size: str) -> None:
    """A file system of this size at ``folder``, as the jobs of one node see it; again, to change the size."""
    inside = ["nsenter", "-m", "-t", str(_pid(f"slurmd-{node}"))]
    if seen_by(node, folder).is_mount():
        subprocess.run([*inside, "mount", "-o", f"remount,size={size}", str(folder)], check=True)
    else:
        folder.mkdir(exist_ok=True)
        subprocess.run([*inside, "mount", "-t", "tmpfs", "-o", f"size={size}", "lmk-faults", str(folder)], check=True)


def seen_by(node: str, path: Path) -> Path:
    """``path`` as the jobs of one node see it."""
    return Path(f"/proc/{_pid(f'slurmd-{node}')}/root{path}")


def until(right, patience: float = PATIENCE_SECONDS) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + patience
    while not right():
        if time.monotonic() > deadline:
            raise TimeoutError("the condition did not come true")
        time.sleep(0.3)


def _pid(name: str) -> int:
    lines = [line.split() for line in (root() / "pids").read_text().splitlines()]
    return int([pid for pid, what in lines if what == name][-1])
