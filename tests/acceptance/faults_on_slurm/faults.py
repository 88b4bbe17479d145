"""The faults: each is done to a grid that runs. What a person would do afterwards is ``lmk submit`` again."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cluster import command, idle_nodes, kill, push_out, seen_by, small_disk, start, until
from fault_grid import REAL, FaultGrid, Shape
from watch import Watch

from lmk_experiments.records import Cell
from lmk_experiments.records.claim import read_claim
from lmk_experiments.records.tickets import last_job
from lmk_slurm import SchedulerError

FULL_BYTES = 100 * 1024
HERE = Path(__file__).parent


@dataclass
class Trial:
    """One fault while it happens."""

    grid: FaultGrid
    watch: Watch
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        print(f"    {text}", flush=True)
        self.notes.append(text)

    def running(self, row: str, step: int = 2) -> bool:
        """Whether the training of ``row`` has come to ``step``."""
        cell = self.grid.trainings[row]
        return ((cell.progress() or {}).get("done") or 0) >= step and read_claim(cell.folder / "claim.json") is not None

    def until_all_run(self) -> None:
        until(lambda: all(self.running(row, 1) or self.cell(row).done() for row in self.grid.trainings))

    def cell(self, row: str) -> Cell:
        return self.grid.trainings[row]

    def job(self, row: str) -> str:
        note = last_job(self.cell(row).folder)
        assert note is not None
        return note.id


@dataclass(frozen=True)
class Fault:
    """What is done, to a grid of which shape. ``before`` replaces the first submit."""

    shape: Shape
    does: Callable[[Trial], None]
    before: Callable[[Trial], None] | None = None


def requeue(trial: Trial) -> None:
    trial.until_all_run()
    jobs = [trial.job(row) for row in ("row0", "row3", REAL)]
    command("scontrol", "requeue", ",".join(jobs))
    trial.note(f"scontrol requeue of {len(jobs)} running jobs")


def grace(trial: Trial) -> None:
    trial.until_all_run()
    push_out()
    trial.note("a job of the partition `high` on every node; 20 s of grace")


def no_grace(trial: Trial) -> None:
    trial.until_all_run()
    push_out()
    trial.note("a job of the partition `high` on every node; no grace")


def cancel_mode(trial: Trial) -> None:
    trial.until_all_run()
    push_out()
    trial.note("a job of the partition `high` on every node; PreemptMode=CANCEL")


def time_limit(trial: Trial) -> None:
    trial.note("a limit of two minutes, with a signal 30 to 90 s before; each training needs three")


def scancel(trial: Trial) -> None:
    trial.until_all_run()
    command("scancel", trial.job("row2"))
    trial.note("scancel of one task of an array")


def slurmd(trial: Trial) -> None:
    until(lambda: trial.running(REAL))
    node = _node(trial, REAL)
    claim = read_claim(trial.cell(REAL).folder / "claim.json")
    assert claim is not None
    kill(f"slurmd-{node}")
    trial.note(f"kill -9 of the slurmd of {node}; its tasks live on")
    until(lambda: _has_claim_of_another(trial.cell(REAL), claim.token), 120)
    alive = _is_alive(claim.pid)
    trial.note(
        f"the job was queued again and has started; the old process {'lived until then' if alive else 'is gone'}"
    )
    until(lambda: not _is_alive(claim.pid), 30)
    trial.note("the old process has ended itself")
    start(f"slurmd-{node}")
    idle_nodes()


def node_down(trial: Trial) -> None:
    trial.until_all_run()
    node = _node(trial, "row0")
    command("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    trial.note(f"{node} set down")
    time.sleep(8)
    command("scontrol", "update", f"nodename={node}", "state=resume")


def slurmctld(trial: Trial) -> None:
    trial.until_all_run()
    time.sleep(8)
    kill("slurmctld")
    time.sleep(5)
    start("slurmctld")
    until(lambda: "UP" in command("scontrol", "ping", check=False))
    trial.note("kill -9 of slurmctld, started again after 5 s")


def slurmdbd_first(trial: Trial) -> None:
    kill("slurmdbd")
    time.sleep(1)
    sent = trial.grid.submit()
    trial.note(f"slurmdbd killed; then submitted: {len(sent.sent)} jobs taken")


def slurmdbd(trial: Trial) -> None:
    until(lambda: any(cell.done() for cell in trial.grid.evaluations.values()))
    start("slurmdbd")
    trial.note("slurmdbd started again when the first evaluation was done")


def task_kill(trial: Trial) -> None:
    for row in ("row1", REAL):
        until(lambda row=row: trial.running(row))
        claim = read_claim(trial.cell(row).folder / "claim.json")
        assert claim is not None
        os.kill(claim.pid, signal.SIGKILL)
    trial.note("kill -9 of the process of one light and of the real training")


def memory(trial: Trial) -> None:
    trial.note("MemoryError in row0, torch.OutOfMemoryError in row1, row2 takes 1.5 GB of the 1 GB that it asked for")


def disk_full_first(trial: Trial) -> None:
    for folder in (trial.cell("row4").folder / "saved", _checkpoints(trial)):
        small_disk("n1", folder, "256k")
    trial.note(f"256 KB of room for what row4 saves and for {REAL}'s checkpoints")
    trial.grid.submit()


def disk_full(trial: Trial) -> None:
    until(lambda: all(trial.cell(row).state().name == "failed" for row in ("row4", REAL)))
    for row, folder in (("row4", trial.cell("row4").folder / "saved"), (REAL, _checkpoints(trial))):
        left = {path.name: path.stat().st_size for path in seen_by("n1", folder).iterdir()}
        trial.note(f"{row}: {trial.cell(row).state()}; its folder holds {left or 'nothing'}")
        small_disk("n1", folder, "64m")


def _checkpoints(trial: Trial) -> Path:
    return trial.cell(REAL).folder / "checkpoints"


def killed_shell_first(trial: Trial) -> None:
    """A sbatch that kills its caller: once after SLURM has taken the second array, once before it is asked."""
    for moment in ("after", "before"):
        folder = trial.grid.root / f"sbatch-{moment}"
        folder.mkdir()
        real = command("which", "sbatch").strip()
        call = f"count=$(cat {folder}/count 2>/dev/null || echo 0); echo $((count+1)) > {folder}/count\n"
        die = "kill -9 $PPID; sleep 1; exit 1\n"
        body = f'[ $count -lt 1 ] || {{ {real} "$@" >/dev/null; {die} }}\n' if moment == "after" else die
        (folder / "sbatch").write_text(f'#!/bin/bash\n{call}{body}exec {real} "$@"\n')
        (folder / "sbatch").chmod(0o755)
        done = _submit(trial, {"PATH": f"{folder}:{os.environ['PATH']}"}).wait()
        notes = [json.loads(path.read_text()) for path in trial.grid.root.glob("grids/*/submissions/*/*.array.json")]
        told = ", ".join(f"{number} {state}" for state, number in Counter(note["state"] for note in notes).items())
        trial.note(f"the submitter was killed (exit code {done}) {moment} sbatch; its arrays: {told}")
    sent = trial.grid.submit()
    trial.note(f"submitted again: {len(sent.adopted)} arrays taken over, {len(sent.sent)} jobs submitted")


def two_people_first(trial: Trial) -> None:
    both = [_submit(trial, {}), _submit(trial, {})]
    said = [process.communicate()[0].split() for process in both]
    trial.note(
        "jobs submitted, and found with the scheduler already: " + " and ".join(f"{a}, {b}" for a, b, *_ in said)
    )


def nothing(trial: Trial) -> None:
    """No fault behind the first submit."""


def _submit(trial: Trial, variables: dict[str, str]) -> subprocess.Popen[str]:
    file = trial.grid.root / "grid.pkl"
    file.write_bytes(pickle.dumps(trial.grid))
    words = [sys.executable, str(HERE / "fault_grid.py"), str(file)]
    return subprocess.Popen(words, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True)


def _node(trial: Trial, row: str) -> str:
    return command("squeue", "-h", "-o", "%N", "-j", trial.job(row)).strip()


def _has_claim_of_another(cell: Cell, token: str) -> bool:
    found = read_claim(cell.folder / "claim.json")
    return found is not None and found.token != token


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def again(trial: Trial) -> int:
    """``lmk submit`` once more; how many jobs it has sent."""
    for _ in range(10):
        try:
            result = trial.grid.submit()
        except SchedulerError as error:
            trial.note(f"submit: {error}")
            time.sleep(3)
            continue
        for name, asked in result.raised.items():
            trial.note(f"{name} asks for {asked:g} GB now")
        return len(result.sent)
    raise TimeoutError("SLURM took nothing")


LONG = Shape(steps=30, real=True, real_pace=0.8)
FAULTS: dict[str, Fault] = {
    "requeue": Fault(LONG, requeue),
    "preempted-grace": Fault(Shape(steps=30, real=True, real_pace=0.8, partition="lowg"), grace),
    "nodes-preempted": Fault(
        Shape(steps=30, real=True, real_steps=8, real_pace=2.5, real_ranks=True, partition="lowg"), grace
    ),
    "preempted-at-once": Fault(Shape(steps=30, partition="low"), no_grace),
    "preempted-cancel": Fault(Shape(steps=30, partition="lowc"), cancel_mode),
    "time-limit": Fault(
        Shape(steps=90, pace=2.0, hours=2 / 60, real=True, real_steps=45, real_pace=4.0, node="n4"), time_limit
    ),
    "scancel": Fault(Shape(steps=24), scancel),
    "slurmd-killed": Fault(Shape(steps=30, real=True, real_steps=60, real_pace=2.5), slurmd),
    "node-down": Fault(Shape(steps=30), node_down),
    "slurmctld-killed": Fault(Shape(steps=30), slurmctld),
    "slurmdbd-down": Fault(Shape(), slurmdbd, slurmdbd_first),
    "task-killed": Fault(LONG, task_kill),
    "out-of-memory": Fault(Shape(do={"row0": "memory error", "row1": "gpu memory", "row2": "eat"}), memory),
    "disk-full": Fault(Shape(bytes=2 * FULL_BYTES, real=True, node="n1"), disk_full, disk_full_first),
    "submitter-killed": Fault(Shape(), nothing, killed_shell_first),
    "two-submitters": Fault(Shape(), nothing, two_people_first),
}
