from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lmk_slurm import Job, JobResult, JobState, Resources, run_jobs

Make = Callable[..., Job]
QUICK = 0.02


def order(job: Job) -> list[str]:
    path = Path(job.argument).parent / "order"
    return path.read_text().splitlines() if path.exists() else []


def test_a_job_starts_when_all_it_waits_for_are_done(make: Make) -> None:
    last = make("last", after=("second", "first"))
    jobs = [last, make("second", after=("first",)), make("first")]
    results = run_jobs(jobs, at_once=3, poll_seconds=QUICK)
    assert list(results) == ["last", "second", "first"]
    assert [result.state for result in results.values()] == [JobState.DONE] * 3
    assert order(last) == ["start first", "end first", "start second", "end second", "start last", "end last"]


def test_ready_jobs_start_in_the_order_given(make: Make) -> None:
    jobs = [make("train1"), make("read1", after=("train1",)), make("train2"), make("read2", after=("train2",))]
    run_jobs(jobs, poll_seconds=QUICK)
    assert [line for line in order(jobs[0]) if line.startswith("start")] == [
        "start train1",
        "start read1",
        "start train2",
        "start read2",
    ]


def test_at_once_is_the_number_that_run_together(make: Make) -> None:
    alone = [make(f"alone{i}") for i in range(3)]
    run_jobs(alone, at_once=1, poll_seconds=QUICK)
    lines = order(alone[0])
    assert [line.split()[0] for line in lines] == ["start", "end"] * 3
    (Path(alone[0].argument).parent / "order").unlink()

    # Each of these ends only while another runs, so they would not end one after the other.
    results = run_jobs([make(name, "meet") for name in ("one", "two")], at_once=2, poll_seconds=QUICK)
    assert [result.state for result in results.values()] == [JobState.DONE] * 2


def test_a_failed_job_skips_those_that_wait_for_it_and_no_others(make: Make) -> None:
    jobs = [
        make("bad", "fail"),
        make("reads bad", after=("bad",)),
        make("reads the reader", after=("reads bad",)),
        make("good"),
        make("reads good", after=("good",)),
    ]
    changes: list[tuple[str, str]] = []
    results = run_jobs(jobs, poll_seconds=QUICK, on_change=lambda name, result: changes.append((name, result.state)))
    assert {name: str(result.state) for name, result in results.items()} == {
        "bad": "failed",
        "reads bad": "skipped",
        "reads the reader": "skipped",
        "good": "done",
        "reads good": "done",
    }
    assert results["reads bad"].reason.startswith("'bad' failed: ValueError: the loss is nan")
    assert results["reads the reader"].reason == results["reads bad"].reason
    assert results["reads bad"].log is None
    assert [line for line in order(jobs[0]) if "reads bad" in line or "reader" in line] == []
    assert changes == [
        ("bad", "running"),
        ("bad", "failed"),
        ("reads bad", "skipped"),
        ("reads the reader", "skipped"),
        ("good", "running"),
        ("good", "done"),
        ("reads good", "running"),
        ("reads good", "done"),
    ]


def test_the_reason_of_a_failure_is_the_last_error_of_its_log(make: Make) -> None:
    job = make("bad", "fail")
    result = run_jobs([job], poll_seconds=QUICK)["bad"]
    assert result.reason == f"ValueError: the loss is nan (ended with exit code 1; no {job.done[0]})"
    assert result.log == job.logs / "1_0_log.out"
    text = result.log.read_text()
    assert "about to fail" in text
    assert "a handled error" in text
    assert "second line of the message" in result.tail
    assert all(line in text for line in result.tail.splitlines())


def test_a_job_that_ends_well_without_its_marker_has_failed(make: Make) -> None:
    job = make("forgets", "forget")
    result = run_jobs([job], poll_seconds=QUICK)["forgets"]
    assert result.state is JobState.FAILED
    assert result.reason == f"ended with exit code 0, without {job.done[0]}"
    assert list(job.logs.glob("*_result.pkl")), "submitit called it a success"
    assert "nothing to do" in result.tail


def test_only_the_missing_paths_are_named(make: Make) -> None:
    job = make("half")
    missing = Path(job.argument) / "model"
    result = run_jobs([replace(job, done=(*job.done, missing))], poll_seconds=QUICK)["half"]
    assert result.reason == f"ended with exit code 0, without {missing}"


def test_a_job_that_fails_after_its_marker_is_done(make: Make) -> None:
    results = run_jobs([make("late", "finish_and_fail"), make("next", after=("late",))], poll_seconds=QUICK)
    assert [result.state for result in results.values()] == [JobState.DONE] * 2


def test_a_job_killed_from_outside_says_so(make: Make) -> None:
    result = run_jobs([make("killed", "die")], poll_seconds=QUICK)["killed"]
    assert result.state is JobState.FAILED
    assert result.reason.startswith("was ended by SIGKILL (the system does this when memory runs out), without ")


def test_a_job_that_cannot_be_imported_fails_with_the_name(make: Make) -> None:
    job = make("lost")
    jobs = [replace(job, function="no_such_package.module:f"), replace(make("other"), function="os.path:no_such")]
    results = run_jobs(jobs, at_once=2, poll_seconds=QUICK)
    assert results["lost"].reason.startswith("ModuleNotFoundError: No module named 'no_such_package'")
    assert results["other"].reason.startswith("AttributeError: module 'posixpath' has no attribute 'no_such'")


def test_a_job_that_is_done_already_is_not_started(make: Make) -> None:
    first, second = make("first"), make("second", after=("first",))
    run_jobs([first], poll_seconds=QUICK)
    results = run_jobs([first, second], poll_seconds=QUICK)
    assert results["first"] == JobResult(JobState.DONE, "was done already")
    assert results["second"].state is JobState.DONE
    assert order(first) == ["start first", "end first", "start second", "end second"]


def test_a_done_job_stays_done_though_what_it_waits_for_fails(make: Make) -> None:
    bad, reader = make("bad", "fail"), make("reader", after=("bad",))
    reader.done[0].touch()
    results = run_jobs([bad, reader], poll_seconds=QUICK)
    assert [result.state for result in results.values()] == [JobState.FAILED, JobState.DONE]


def test_a_second_start_has_a_log_of_its_own(make: Make) -> None:
    job = make("again", "forget")
    logs = [run_jobs([job], poll_seconds=QUICK)["again"].log for _ in range(2)]
    assert logs == [job.logs / "1_0_log.out", job.logs / "2_0_log.out"]


def test_a_log_folder_that_cannot_be_made_fails_that_job_alone(make: Make) -> None:
    job = make("stuck")
    job.logs.write_text("a file where the folder should be")
    results = run_jobs([job, make("fine")], poll_seconds=QUICK)
    assert results["stuck"].state is JobState.FAILED
    assert results["stuck"].reason.startswith("could not be started: ")
    assert str(job.logs) in results["stuck"].reason
    assert results["fine"].state is JobState.DONE


def test_tick_is_called_between_looks(make: Make) -> None:
    job = make("waits", "print_and_wait")
    ticks = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 3:
            (Path(job.argument) / "release").touch()

    assert run_jobs([job], poll_seconds=QUICK, tick=tick)["waits"].state is JobState.DONE
    assert len(ticks) > 3


def test_output_and_errors_are_in_the_log_while_the_job_runs(make: Make) -> None:
    job = make("prints", "print_and_wait")
    seen = []

    def tick() -> None:
        if (Path(job.argument) / "printed").exists() and not seen:
            seen.append((job.logs / "1_0_log.out").read_text())
            (Path(job.argument) / "release").touch()

    run_jobs([job], poll_seconds=QUICK, tick=tick)
    assert "to the output\nto the errors\n" in seen[0]


def test_the_environment_is_that_of_one_child(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    jobs = [
        make("own", "show_environment", environment={"LMK_TEST_VALUE": "a b", "OMP_NUM_THREADS": "3"}),
        make("plain", "show_environment"),
        make("no gpu", "show_environment", resources=Resources(gpus=0)),
    ]
    results = run_jobs(jobs, poll_seconds=QUICK)
    assert {result.state for result in results.values()} == {JobState.DONE}
    values = [(Path(job.argument) / "values").read_text().splitlines() for job in jobs]
    # The last is the mark of the local launcher, which must not reach what a job starts.
    none = "LMK_SLURM_PARENT=None"
    assert values[0] == ["LMK_TEST_VALUE=a b", "OMP_NUM_THREADS=3", "CUDA_VISIBLE_DEVICES=0,1", none]
    assert values[1] == ["LMK_TEST_VALUE=None", "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES=0,1", none]
    assert values[2] == ["LMK_TEST_VALUE=None", "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES=", none]


def test_long_paths_work(make: Make, tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["a long name with spaces " + "x" * 80] * 8)
    folder.mkdir(parents=True)
    job = make("far", argument=str(folder), logs=folder / "logs", done=(folder / "DONE",))
    result = run_jobs([job], poll_seconds=QUICK)["far"]
    assert (result.state, result.log) == (JobState.DONE, folder / "logs" / "1_0_log.out")


def test_no_jobs_is_no_error() -> None:
    assert run_jobs([]) == {}
