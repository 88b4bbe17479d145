"""What is made of SLURM's answers. The commands are scripts that print what SLURM was seen to print."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmk_slurm import Phase, SchedulerError, Sighting, Ticket, look
from lmk_slurm.scheduler import GONE, clean_environment


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put commands on the path that print a text, and note how they were called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def make(name: str, output: str = "", *, error: str = "") -> Path:
        calls = tmp_path / f"{name}.calls"
        (folder / f"{name}.out").write_text(output)
        end = f"echo '{error}' >&2; exit 1" if error else "exit 0"
        script = f'#!/bin/sh\necho "$@" >> {calls}\ncat {folder / name}.out\n{end}\n'
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
        return calls

    return make


def test_one_call_of_the_controller_for_all_jobs(commands) -> None:
    calls = commands(
        "squeue", "7_0|grid-a|RUNNING|None|n1\n7_1|grid-a|PENDING|Priority|\n8_0|grid-b|PENDING|Dependency|\n"
    )
    commands("sacct", error="must not be asked")
    seen = look([Ticket("7_0", "grid-a"), Ticket("7_1", "grid-a"), Ticket("8_0", "grid-b")])
    assert seen == {
        "7_0": Sighting("RUNNING", "", "n1"),
        "7_1": Sighting("PENDING", "Priority"),
        "8_0": Sighting("PENDING", "Dependency"),
    }
    [call] = calls.read_text().splitlines()
    assert "--jobs=7,8" in call


def test_the_accounts_are_asked_for_what_the_controller_forgot(commands) -> None:
    commands("squeue", "7_0|grid-a|RUNNING|None|n1\n")
    calls = commands(
        "sacct",
        "7_1|grid-a|CANCELLED by 1000|0:0|None assigned\n7_[2-3,5%4]|grid-a|CANCELLED by 0|0:0|None assigned\n"
        "8_0|grid-b|FAILED|3:0|n2\n",
    )
    wanted = [Ticket(f"7_{index}", "grid-a") for index in range(6)] + [Ticket("8_0", "grid-b")]
    seen = look(wanted)
    assert seen["7_0"].phase is Phase.RUNNING
    assert seen["7_1"] == Sighting("CANCELLED", "by 1000")
    assert seen["7_3"].state == seen["7_5"].state == "CANCELLED"
    assert seen["7_4"] == GONE
    assert seen["8_0"] == Sighting("FAILED", "exit code 3", "n2")
    assert len(calls.read_text().splitlines()) == 1


@pytest.mark.parametrize("word", ["RUNNING", "PENDING", "REQUEUED"])
def test_a_job_that_the_controller_has_lost_does_not_run(commands, word: str) -> None:
    """A controller that was killed forgets the newest jobs, and the accounts never hear of their end."""
    commands("squeue", "")
    commands("sacct", f"7_0|grid-a|{word}|0:0|n1\n")
    assert look([Ticket("7_0", "grid-a")]) == {"7_0": GONE}


def test_a_number_that_came_again_is_another_job(commands) -> None:
    commands("squeue", "7_0|somebody-else|RUNNING|None|n1\n")
    commands("sacct", "7_0|somebody-else|RUNNING|0:0|n1\n")
    assert look([Ticket("7_0", "grid-a")]) == {"7_0": GONE}


def test_a_controller_that_has_none_of_them_is_no_error(commands) -> None:
    commands("squeue", error="slurm_load_jobs error: Invalid job id specified")
    commands("sacct", error="Slurm accounting storage is disabled")
    assert look([Ticket("7_0", "a")]) == {"7_0": GONE}


def test_a_controller_that_is_down_is_said_in_its_own_words(commands) -> None:
    commands("squeue", error="slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    with pytest.raises(SchedulerError, match=r"squeue: .*Unable to contact slurm controller"):
        look([Ticket("7_0", "a")])


def test_without_slurm_the_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SchedulerError, match="no command 'squeue' here"):
        look([Ticket("7_0", "a")])
    assert look([]) == {}


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        ("PENDING", Phase.QUEUED),
        ("REQUEUED", Phase.QUEUED),
        ("COMPLETING", Phase.RUNNING),
        ("COMPLETED", Phase.ENDED),
        ("OUT_OF_MEMORY", Phase.ENDED),
        ("A_NEW_WORD", Phase.UNKNOWN),
    ],
)
def test_words_and_what_they_mean(word: str, phase: Phase) -> None:
    assert Sighting(word).phase is phase


def test_a_job_can_submit_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_MEM_PER_NODE", "SBATCH_EXPORT", "SLURM_CONF", "SUBMITIT_EXECUTOR", "OTHER"):
        monkeypatch.setenv(name, "x")
    kept = clean_environment()
    assert {"SLURM_CONF", "OTHER"} <= set(kept)
    assert not {"SLURM_MEM_PER_NODE", "SBATCH_EXPORT", "SUBMITIT_EXECUTOR"} & set(kept)
