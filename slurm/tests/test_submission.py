"""What is handed over: to submitit's pickle, to a launcher, to whoever imports the package."""

from __future__ import annotations

import pickle
import pickletools
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lmk_slurm import Job, JobResult, JobsInterrupted, JobState, Phase, Report, run_jobs
from lmk_slurm.child import call

Make = Callable[..., Job]


def test_the_pickle_holds_one_function_and_strings(make: Make) -> None:
    job = make("a", environment={"LMK_TEST_VALUE": "not in the pickle"})
    run_jobs([job], poll_seconds=0.02)
    raw = (job.logs / "1_submitted.pkl").read_bytes()
    submission = pickle.loads(raw)
    assert submission.function is call
    assert submission.args == (job.function, job.argument)
    assert submission.kwargs == {}
    strings = [value for operation, value, _ in pickletools.genops(raw) if isinstance(value, str)]
    opcodes = {operation.name for operation, _, _ in pickletools.genops(raw)}
    # By reference: two names are imported when it is opened, and no code travels in it.
    assert "lmk_slurm.child" in strings
    assert [operation.name for operation, _, _ in pickletools.genops(raw)].count("STACK_GLOBAL") == 2
    assert opcodes.isdisjoint({"BINBYTES", "SHORT_BINBYTES", "GLOBAL", "INST", "OBJ"})
    assert "not in the pickle" not in strings


def test_importing_the_package_is_light() -> None:
    code = "import lmk_slurm, sys; print([m for m in ('submitit', 'numpy', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@dataclass
class Scripted:
    """A scheduler that says what it is told to, one word a look."""

    words: list[Report]
    id: str = "1"
    log: Path = Path("1_0_log.out")
    calls: list[str] = field(default_factory=list)

    def check(self, job: Job) -> None:
        self.calls.append(f"check {job.name}")

    def submit(self, job: Job) -> Scripted:
        self.calls.append(f"submit {job.name}")
        return self

    def poll(self, handle: Scripted) -> Report:
        return self.words.pop(0)

    def cancel(self, handles: Sequence[Scripted]) -> None:
        self.calls.append(f"cancel {len(handles)}")


def test_words_of_a_scheduler_are_shown_and_never_acted_on(make: Make) -> None:
    job = make("a")
    launcher = Scripted(
        [
            Report(Phase.QUEUED, "PENDING (Priority)"),
            Report(Phase.RUNNING),
            Report(Phase.UNKNOWN, "SPECIAL_EXIT"),
            Report(Phase.QUEUED, "REQUEUED"),
            Report(Phase.UNKNOWN, "NEVER_SEEN"),
            Report(Phase.RUNNING),
            Report(Phase.ENDED, "NODE_FAIL"),
        ]
    )
    changes: list[JobResult] = []

    def note(name: str, result: JobResult) -> None:
        changes.append(result)
        if result.state is JobState.RUNNING and not result.reason and len(changes) > 2:
            job.done[0].touch()

    results = run_jobs([job], poll_seconds=0.01, on_change=note, launcher=launcher)
    assert [(str(result.state), result.reason) for result in changes] == [
        ("waiting", "PENDING (Priority)"),
        ("running", ""),
        ("running", "unknown state 'SPECIAL_EXIT'"),
        ("waiting", "REQUEUED"),
        ("waiting", "unknown state 'NEVER_SEEN'"),
        ("running", ""),
        ("done", ""),
    ]
    assert results["a"].state is JobState.DONE
    assert launcher.calls == ["check a", "submit a"]


def test_an_end_without_a_log_still_has_a_reason(make: Make) -> None:
    job = make("a")
    launcher = Scripted([Report(Phase.ENDED, "TIMEOUT")])
    result = run_jobs([job], poll_seconds=0.01, launcher=launcher)["a"]
    assert (result.state, result.reason, result.tail) == (JobState.FAILED, f"TIMEOUT, without {job.done[0]}", "")


@pytest.mark.parametrize("stop", [True, False])
def test_an_interrupt_cancels_what_a_scheduler_runs_or_leaves_it(make: Make, stop: bool) -> None:
    launcher = Scripted([Report(Phase.RUNNING)])

    def tick() -> None:
        raise KeyboardInterrupt

    with pytest.raises(JobsInterrupted) as caught:
        run_jobs([make("a"), make("b")], tick=tick, launcher=launcher, stop_on_interrupt=stop)
    states = [str(result.state) for result in caught.value.results.values()]
    assert states == (["cancelled", "cancelled"] if stop else ["running", "waiting"])
    assert launcher.calls[-1] == ("cancel 1" if stop else "submit a")
