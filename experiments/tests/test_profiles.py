"""Profiles: their files, their errors, and what a cell asks of the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lmk_experiments.configs import ConfigError, shipped_names
from lmk_experiments.grids.needs import Facts, ResourcesSection
from lmk_experiments.profiles import Profile, load_profile, resources_of, split_by

TRAINING = Facts("training", "lmk-32", "org/model-multilingual", 512)
READING = Facts("evaluation", "lmk-32", "org/model", 8192)


@pytest.mark.parametrize("name", shipped_names("profiles"))
def test_shipped_profiles_are_whole(name: str) -> None:
    profile = load_profile(name)
    assert profile.profile == name
    assert profile.about
    assert profile.site().max_array == profile.max_array


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"partitoin": "gpu"}, r"mine\.yaml:2: partitoin: unknown key; did you mean 'partition'\?"),
        ({"gpu": {"form": "gpu"}}, r"mine\.yaml:3: gpu\.form: .*'gres' or 'gpus-per-node', found 'gpu'"),
        ({"max_array": 0}, r"mine\.yaml:2: max_array: .*greater than or equal to 1, found 0"),
        ({"scheduler": "pbs"}, r"mine\.yaml:2: scheduler: .*'slurm' or 'local', found 'pbs'"),
        ({"sbatch": {"array": "0-3"}}, r"sbatch\.array is set for every job already"),
        ({"gpu": {"per_node": 4}, "train": {"gpus": 8}}, r"mine\.yaml:5: train\.gpus: a node has 4 \(gpu\.per_node\)"),
        (
            {"gpu": {"per_node": 1}, "analyze": {"gpus": 2}},
            r"mine\.yaml:5: analyze\.gpus: a node has 1 ",
        ),
        ({"rules": [{"when": {"kind": "train"}}]}, r"mine\.yaml:4: rules\[0\]\.when\.kind: .*'training'"),
    ],
    ids=["unknown key", "form", "array", "scheduler", "own option", "too many gpus", "of an analysis", "rule"],
)
def test_a_broken_profile_is_told_by_file_line_and_key(
    change: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(yaml.safe_dump({"profile": "mine", **change}, sort_keys=False))
    with pytest.raises(ConfigError, match=told):
        load_profile("mine.yaml")


def test_a_number_is_a_variable_too() -> None:
    profile = Profile.model_validate({"profile": "a", "environment": {"OMP_NUM_THREADS": 4}, "offline": True})
    environment = profile.site().environment
    assert environment["OMP_NUM_THREADS"] == "4"
    assert environment["HF_HUB_OFFLINE"] == "1"


def test_needs_go_from_the_profile_to_the_grid_and_from_sections_to_rules() -> None:
    profile = Profile.model_validate(
        {
            "profile": "a",
            "train": {"gpus": 1, "cpus": 8, "hours": 24},
            "evaluate": {"gpus": 1, "hours": 12, "split_by": "suite"},
            "rules": [
                {"when": {"longer_than": 4096}, "memory_gb": 256},
                {"when": {"model": "*multilingual*", "kind": "training"}, "gpus": 8},
            ],
        }
    )
    nothing = ResourcesSection()
    training = resources_of(TRAINING, nothing, profile)
    assert (training.gpus, training.cpus, training.memory_gb, training.hours) == (8, 8, None, 24)
    assert training.tasks == 8
    reading = resources_of(READING, nothing, profile)
    assert (reading.gpus, reading.memory_gb, reading.hours) == (1, 256, 12)
    grid = ResourcesSection.model_validate(
        {
            "train": {"hours": 2},
            "evaluate": {"memory_gb": 32},
            "rules": [{"when": {"row": "lmk-*", "kind": "evaluation"}, "hours": 1}],
        }
    )
    assert resources_of(TRAINING, grid, profile).hours == 2
    assert resources_of(TRAINING, grid, profile).gpus == 8, "a key that the grid does not give stays the profile's"
    assert resources_of(READING, grid, profile).memory_gb == 32
    assert resources_of(READING, grid, profile).hours == 1
    assert resources_of(READING, nothing).gpus == 0, "without a profile the grid's own defaults hold"


@pytest.mark.parametrize(
    ("asked", "facts", "expected"),
    [
        ({}, TRAINING, (1, 1, 0)),
        ({"gpus": 8}, TRAINING, (1, 8, 8)),
        ({"gpus": 8, "nodes": 2}, TRAINING, (2, 8, 8)),
        ({"gpus": 8, "tasks": 4}, TRAINING, (1, 4, 8)),
        ({"tasks": 2, "nodes": 2}, TRAINING, (2, 2, 0)),
        ({}, replace(TRAINING, devices=4, nodes=2), (2, 4, 0)),
        ({"gpus": 2}, replace(TRAINING, devices=4), (1, 2, 2)),
        ({"gpus": 8}, READING, (1, 1, 8)),
        ({}, replace(READING, devices=4, nodes=2), (1, 1, 0)),
    ],
)
def test_a_training_has_a_process_for_each_gpu(asked: dict, facts: Facts, expected: tuple[int, int, int]) -> None:
    grid = ResourcesSection.model_validate({"train" if facts.kind == "training" else "evaluate": asked})
    found = resources_of(facts, grid)
    assert (found.nodes, found.tasks, found.gpus) == expected


def test_what_does_not_fit_together_is_told() -> None:
    grid = ResourcesSection.model_validate({"train": {"gpus": 2, "tasks": 4}, "evaluate": {"nodes": 2}})
    with pytest.raises(
        ValueError, match="training lmk-32: resources ask for 4 tasks and 2 gpus a node; valid: a GPU for"
    ):
        resources_of(TRAINING, grid)
    with pytest.raises(
        ValueError, match="evaluation of lmk-32: resources ask for 1 tasks on 2 nodes; valid: one on one"
    ):
        resources_of(READING, grid)


def test_a_grid_says_how_evaluations_are_split_else_the_profile() -> None:
    profile = Profile.model_validate({"profile": "a", "evaluate": {"split_by": "suite"}})
    assert split_by(ResourcesSection()) == "training"
    assert split_by(ResourcesSection(), profile) == "suite"
    grid = ResourcesSection.model_validate({"evaluate": {"split_by": "training"}})
    assert split_by(grid, profile) == "training"


def test_what_needs_more_hours_than_a_job_may_ask_goes_on_in_further_ones() -> None:
    profile = Profile.model_validate({"profile": "a", "max_hours": 24, "train": {"hours": 12}})
    asked = ResourcesSection.model_validate({"train": {"hours": 100}})
    assert resources_of(TRAINING, asked, profile).hours == 24
    assert resources_of(TRAINING, ResourcesSection(), profile).hours == 12
    assert resources_of(TRAINING, asked).hours == 100
