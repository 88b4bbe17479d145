from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lmk_slurm import Job, JobError, Resources, run_jobs

Make = Callable[..., Job]


def refused(jobs: list[Job], **options) -> JobError:
    with pytest.raises(JobError) as caught:
        run_jobs(jobs, **options)
    assert not any(job.logs.exists() for job in jobs), "something was started"
    return caught.value


def test_a_name_used_twice(make: Make) -> None:
    error = refused([make("a"), make("b"), make("a")])
    assert (error.job, str(error)) == ("a", "job 'a': the name is used twice; every job needs a name of its own")


def test_an_unknown_name_lists_the_jobs(make: Make) -> None:
    error = refused([make("a"), make("b", after=("a", "c"))])
    assert str(error) == "job 'b': `after` names 'c', which is no job; the jobs are 'a', 'b'"


def test_a_cycle_is_named(make: Make) -> None:
    jobs = [make("free"), make("a", after=("c",)), make("b", after=("a", "free")), make("c", after=("b",))]
    error = refused(jobs)
    cycle = re.search(r"each other: (.*);", str(error))
    assert cycle is not None
    names = cycle[1].split(" -> ")
    assert names[0] == names[-1] == error.job
    waits_for = {job.name: job.after for job in jobs}
    assert all(after in waits_for[name] for name, after in itertools.pairwise(names))
    assert len(names) == 4


def test_a_job_that_waits_for_itself(make: Make) -> None:
    assert "a -> a" in str(refused([make("a", after=("a",))]))


def test_a_long_chain_is_no_problem(make: Make) -> None:
    jobs = [make(f"{i}", after=(f"{i - 1}",) if i else ()) for i in range(1500)]
    for job in jobs:
        job.done[0].touch()
    assert len(run_jobs(jobs)) == 1500


@pytest.mark.parametrize("function", ["", "os", "os.path", "os:", ":f", "os path:f", "os:f()", "a.b:c:d", "1a:f", None])
def test_a_function_of_another_form(tmp_path: Path, function: str) -> None:
    job = Job(name="a", function=function, argument="", logs=tmp_path / "logs", done=(tmp_path / "DONE",))
    assert str(refused([job])) == f"job 'a': function is {function!r}; valid is 'package.module:attribute'"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"argument": 3}, "argument must be a str, not int (3)"),
        ({"argument": Path("x")}, "argument must be a str, not PosixPath"),
        ({"after": "b"}, "after must be a tuple of names, not the str 'b'"),
        ({"done": ()}, "done is empty; name at least one path"),
        ({"environment": {"A": 1}}, "environment has 'A': 1; names and values must be str"),
        ({"resources": Resources(nodes=2)}, "nodes is 2; on this machine the only valid number is 1"),
    ],
)
def test_other_values(make: Make, options: dict, text: str) -> None:
    error = refused([make("a", **options)])
    assert error.job == "a"
    assert f"job 'a': {text}" in str(error)


def test_main_cannot_be_imported_by_a_child(tmp_path: Path) -> None:
    job = Job(name="a", function="__main__:f", argument="", logs=tmp_path / "logs", done=(tmp_path / "DONE",))
    assert "a fresh process cannot import __main__" in str(refused([job]))


def test_a_log_folder_with_a_tag_of_submitit(make: Make, tmp_path: Path) -> None:
    assert "must not contain %j" in str(refused([make("a", logs=tmp_path / "100%job" / "logs")]))


def test_numbers_out_of_range(make: Make) -> None:
    with pytest.raises(ValueError, match="at_once is 0; it must be 1 or more"):
        run_jobs([make("a")], at_once=0)
    with pytest.raises(ValueError, match="poll_seconds is 0; it must be more than 0"):
        run_jobs([make("a")], poll_seconds=0)
