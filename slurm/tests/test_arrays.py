"""Which jobs go to a scheduler together, what each waits for, and the text that sbatch is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lmk_slurm import Job, JobError, Resources, Site, scripts
from lmk_slurm.arrays import Array, arrange

Make = Callable[..., Job]


def pairs(make: Make, count: int, **options) -> list[Job]:
    """`count` trainings, each with a reading of it."""
    jobs = []
    for number in range(count):
        jobs.append(make(f"train {number}", **options))
        jobs.append(make(f"read {number}", after=(f"train {number}",), resources=Resources(gpus=1)))
    return jobs


def names(array: Array) -> dict[int, str]:
    return {index: job.name for index, job in array.tasks.items()}


def test_a_reading_has_the_index_of_its_training(make: Make) -> None:
    trainings, readings = arrange(pairs(make, 3), Site(), {})
    assert names(trainings) == {0: "train 0", 1: "train 1", 2: "train 2"}
    assert names(readings) == {0: "read 0", 1: "read 1", 2: "read 2"}
    assert readings.parent is trainings
    assert readings.dependency({trainings: "17"}) == "aftercorr:17"
    assert trainings.dependency({}) is None


def test_arrays_are_cut_at_the_limit_of_the_site(make: Make) -> None:
    arrays = arrange(pairs(make, 7), Site(max_array=3), {})
    assert [len(array.tasks) for array in arrays] == [3, 3, 1, 3, 3, 1]
    for trainings, readings in zip(arrays[:3], arrays[3:], strict=True):
        assert readings.parent is trainings
        assert sorted(readings.tasks) == sorted(trainings.tasks)


def test_one_array_has_one_shape(make: Make) -> None:
    big = make("big", resources=Resources(gpus=8))
    other = make("other", environment={"A": "1"})
    arrays = arrange([make("small"), big, make("small too"), other], Site(), {})
    assert [list(names(array).values()) for array in arrays] == [["small", "small too"], ["big"], ["other"]]


def test_what_is_done_or_active_is_left_out(make: Make) -> None:
    jobs = pairs(make, 4)
    jobs[0].done[0].touch()
    arrays = arrange(jobs, Site(), {"train 1": "9_5", "train 2": "9_6", "read 2": "10_6"})
    assert [names(array) for array in arrays] == [{0: "train 3"}, {0: "read 0"}, {5: "read 1"}, {0: "read 3"}]
    fresh, free, behind, own = arrays
    ids = {fresh: "20"}
    assert [array.dependency(ids) for array in (free, behind, own)] == [None, "aftercorr:9", "aftercorr:20"]
    assert behind.indices == "5"


def test_two_readings_of_one_training_are_in_two_arrays(make: Make) -> None:
    jobs = [make("train"), make("short", after=("train",)), make("long", after=("train",))]
    arrays = arrange(jobs, Site(), {})
    assert [names(array) for array in arrays] == [{0: "train"}, {0: "short"}, {0: "long"}]
    assert [array.dependency({arrays[0]: "3"}) for array in arrays[1:]] == ["aftercorr:3"] * 2


def test_a_job_that_waits_for_several_is_alone(make: Make) -> None:
    jobs = [make("a"), make("b"), make("both", after=("a", "b"))]
    first, last = arrange(jobs, Site(), {})
    assert last.dependency({first: "4"}) == "afterok:4_0:4_1"


def test_indices_are_written_short(make: Make) -> None:
    array = Array(Resources(), {}, tasks=dict.fromkeys([5, 0, 1, 2, 7, 8], make("x")))
    assert array.indices == "0-2,5,7-8"


def test_more_than_the_site_gives_is_refused_by_name(make: Make) -> None:
    site = Site(gpus_per_node=8, max_hours=24)
    with pytest.raises(JobError, match="job 'wide': gpus is 9, and a job may ask for 8 at most here"):
        arrange([make("wide", resources=Resources(gpus=9))], site, {})
    with pytest.raises(JobError, match="hours is 25"):
        arrange([make("long", resources=Resources(hours=25))], site, {})


def test_the_text_for_sbatch_says_all_that_a_site_wants(make: Make, tmp_path: Path) -> None:
    site = Site(
        partition="gpu",
        account="lab",
        qos="normal",
        gpu_type="h100",
        at_once=2,
        setup=("module load cuda",),
        environment={"THREADS": "$SLURM_CPUS_PER_TASK", "NAME": "it's"},
        srun=("--container-image=/x.sqsh",),
        options={"reservation": "paper", "exclusive": True},
    )
    needs = Resources(nodes=2, tasks=4, gpus=4, cpus=8, memory_gb=100, hours=1.5)
    jobs = [replace(job, resources=needs) for job in pairs(make, 2)]
    text, reading, last = scripts(jobs, site, tmp_path, label="my grid", last=make("sync"))
    lines = text.splitlines()
    for line in (
        "--array=0-1%2",
        "--job-name=my-grid",
        "--partition=gpu",
        "--account=lab",
        "--qos=normal",
        "--gres=gpu:h100:4",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--cpus-per-task=8",
        "--mem=102400M",
        "--time=90",
        "--reservation=paper",
        "--exclusive",
        "--requeue",
    ):
        assert f"#SBATCH {line}" in lines, text
    assert "module load cuda" in lines
    assert 'export THREADS="$SLURM_CPUS_PER_TASK"' in lines
    assert "export NAME='it'\"'\"'s'" in lines
    assert "--kill-on-bad-exit=1 --cpus-per-task=8 --container-image=/x.sqsh" in text
    assert "wckey" not in text
    assert "#SBATCH --kill-on-invalid-dep=yes" in reading
    assert "aftercorr:<array 1>" in reading
    assert "afterany:<array 1>:<array 2>" in last
    assert "kill-on-invalid-dep" not in last


def test_the_other_form_of_asking_for_gpus(make: Make, tmp_path: Path) -> None:
    site = Site(gpu_form="gpus-per-node", gpu_type="h100")
    [text] = scripts([make("a", resources=Resources(gpus=2))], site, tmp_path, label="a")
    assert "#SBATCH --gpus-per-node=h100:2" in text
    [text] = scripts([make("a", resources=Resources(gpus=2))], Site(), tmp_path, label="a")
    assert "#SBATCH --gres=gpu:2" in text
    [text] = scripts([make("a", resources=Resources(gpus=0))], site, tmp_path, label="a")
    assert "gpu" not in text
