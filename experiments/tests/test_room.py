"""How many cells `lmk run` does at a time, and the threads they get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmk_experiments.grids import load_grid_file, make_plan
from lmk_experiments.jobs.fan import make_jobs, record_of
from lmk_experiments.jobs.room import cells_at_once, cores_here
from lmk_experiments.profiles import Profile
from lmk_slurm import Job, Resources

GRID = """
grid: g
seeds: [0]
base: []
train:
  - row: r
    pooling: {{kind: cls}}
    model: {{path: org/model}}
    data: {{train: ["data:msmarco-passage"]}}
    optim: {{steps: 1, batch_size: 8, learning_rate: 1e-5}}
evaluate: {{suites: [msmarco-dev], max_length: 128}}
resources: {{train: {{{train}}}, evaluate: {{{evaluate}}}}}
"""


def jobs(folder: Path, train: str, evaluate: str = "", profile: Profile | None = None) -> list[Job]:
    file = folder / "g.yaml"
    file.write_text(GRID.format(train=train, evaluate=evaluate))
    plan = make_plan(load_grid_file(str(file)), folder)
    return make_jobs(record_of(plan), folder, plan, profile)


@pytest.mark.parametrize(
    ("asked", "cores", "fits"),
    [
        ([Resources(cpus=1)], 2, 2),
        ([Resources(cpus=2)], 2, 1),
        ([Resources(cpus=2), Resources(cpus=1)], 16, 8),  # whichever of them run together
        ([Resources(cpus=3)], 16, 5),
        ([Resources(cpus=8)], 2, 1),
        ([Resources(cpus=1), Resources(cpus=1, gpus=1)], 16, 1),
        ([Resources(cpus=1), Resources()], 4, 1),
        ([], 4, 4),
    ],
)
def test_cells_at_once(asked: list[Resources], cores: int, fits: int) -> None:
    waiting = [Job(name=str(n), function="a:b", argument="", logs=Path(), resources=one) for n, one in enumerate(asked)]
    assert cells_at_once(waiting, cores) == fits


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_only_cores_that_this_process_may_use_count() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores_here() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores_here() == len(before)


def test_a_cell_gets_the_threads_it_asks_for(tmp_path: Path) -> None:
    train, evaluate = jobs(tmp_path, "cpus: 2", "cpus: 1")
    assert train.environment == {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    assert evaluate.environment == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def test_a_cell_that_asks_for_no_cores_has_the_machine_to_itself(tmp_path: Path) -> None:
    both = jobs(tmp_path, "hours: 1", "hours: 1")
    assert [job.environment for job in both] == [{}, {}]
    assert cells_at_once(both, 16) == 1


def test_a_gpus_cell_and_a_clusters_profile_choose_their_own_threads(tmp_path: Path) -> None:
    train, _ = jobs(tmp_path, "cpus: 2, gpus: 1")
    assert train.environment == {}
    assert all(job.environment == {} for job in jobs(tmp_path, "cpus: 2", profile=Profile(profile="p")))
