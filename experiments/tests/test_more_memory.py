"""A job whose last start ran out of memory asks for more, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmk_experiments.profiles import Profile
from lmk_experiments.records import Cell, CellRecorder
from lmk_experiments.records.tickets import JobNote
from lmk_experiments.submit.memory import with_memory
from lmk_experiments.submit.states import cell_state
from lmk_slurm import Job, Resources, Sighting

KILLED = "step 3/10\nslurmstepd-n1: error: Exceeded job memory limit\nslurmstepd-n1: error: *** JOB 7 CANCELLED ***\n"


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    made = Cell(tmp_path / "trainings" / "0123456789ab").create("training", {})
    CellRecorder(made.folder).event("attempt", job="7_0")
    return made


def note(cell: Cell, memory_gb: float | None = 16, *, raised: bool = False, log: str = "") -> JobNote:
    (cell.folder / "log").write_text(log)
    return JobNote(
        id="7_0", name="g", job="train a", log=str(cell.folder / "log"), time=0.0, profile="p", user="u", host="h",
        memory_gb=memory_gb, raised=raised,
    )  # fmt: skip


def asked(
    cell: Cell, before: JobNote, state: str, limit: float | None = None, **grid: float
) -> tuple[float | None, bool]:
    job = Job("train a", "m:f", str(cell.folder), cell.folder, resources=Resources(**grid))
    profile = Profile(profile="p", memory_gb=16, max_memory_gb=limit)
    found, raised = with_memory(job, [cell], {cell.folder: (before, Sighting(state))}, profile)
    return found.resources.memory_gb, raised


def test_what_python_says(cell: Cell) -> None:
    CellRecorder(cell.folder).event("failed", reason="MemoryError", failure="out_of_memory")
    assert asked(cell, note(cell), "FAILED") == (32, True)
    assert asked(cell, note(cell), "FAILED", limit=24) == (24, True)
    assert asked(cell, note(cell), "FAILED", limit=16) == (None, False)
    assert asked(cell, note(cell, 64), "FAILED", memory_gb=64) == (128, True)


def test_a_kill_that_the_scheduler_calls_a_failure(cell: Cell) -> None:
    assert asked(cell, note(cell, log=KILLED), "FAILED") == (32, True)
    assert asked(cell, note(cell, log="Killed\n"), "OUT_OF_MEMORY") == (32, True)
    assert asked(cell, note(cell, log="Killed\n"), "FAILED") == (None, False)


def test_no_other_error(cell: Cell) -> None:
    CellRecorder(cell.folder).event("failed", reason="OutOfMemoryError: CUDA", failure="out_of_gpu_memory")
    assert asked(cell, note(cell, log=KILLED), "FAILED") == (None, False)


def test_once_and_then_it_stays(cell: Cell) -> None:
    CellRecorder(cell.folder).event("failed", reason="MemoryError", failure="out_of_memory")
    assert asked(cell, note(cell, 32, raised=True), "FAILED") == (32, True)


def test_status_says_what_ran_out_and_what_to_do(cell: Cell) -> None:
    def said(before: JobNote, state: str = "FAILED") -> str:
        return cell_state(cell, before, Sighting(state, "NonZeroExitCode")).reason

    assert said(note(cell, log=KILLED)) == "out of memory: 16 GB; submit again, and it asks for more"
    assert said(note(cell, log="srun: error: n3: task 0: Killed\n")) == "its process was killed"
    assert said(note(cell, log="Killed")) == "its job ended as FAILED (NonZeroExitCode)"
    CellRecorder(cell.folder).event("failed", reason="MemoryError", failure="out_of_memory")
    told = said(note(cell, 32, raised=True))
    assert told == "MemoryError: 32 GB, raised once already; give it more (memory_gb)"
