"""The grids of the small replication: what they come to, and which trainings they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmk_experiments.builders import BUILDERS
from lmk_experiments.cli.run_grid import prepare
from lmk_experiments.grids import Plan, count, load_grid_file, make_plan
from lmk_experiments.records import write_json
from lmk_experiments.tables.load import load_table

GRIDS = {  # trainings, rows and evaluations of all seeds
    "small": (25, 40, 120),
    "small_full": (55, 75, 225),
    "small_length": (36, 36, 108),
    "small_attention": (27, 27, 81),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    """Planned as if the data were built."""
    root = tmp_path_factory.mktemp("runs")
    names = BUILDERS["small"].outputs
    write_json(
        root / "built/small/BUILT.json",
        {"schema": 1, "name": "small", "fingerprints": {name: f"{at:064x}" for at, name in enumerate(names)}},
    )
    return {name: make_plan(load_grid_file(name), root) for name in GRIDS}


@pytest.mark.parametrize("name", GRIDS)
def test_what_a_grid_comes_to(plans: dict[str, Plan], name: str) -> None:
    plan = plans[name]
    assert (len(plan.trainings), len(plan.rows), sum(len(row.evaluations) for row in plan.rows)) == GRIDS[name]
    assert count([plan]).fine_tunes == GRIDS[name][0]  # none of them is another's twin
    assert all(one.id is not None for one in plan.trainings)
    assert {need.cpus for need in (plan.resources.train, plan.resources.evaluate)} == {1}  # numbers of one thread
    table = load_table(load_grid_file(name), plan)
    assert table is not None
    assert {column["suite"] for column in table["columns"]} == {"short", "long", "long-unshared"}


def test_the_full_grid_and_the_variations_share_the_trainings_of_the_small_one(plans: dict[str, Plan]) -> None:
    ids = {name: {one.id: (one.row, one.seed) for one in plan.trainings} for name, plan in plans.items()}
    assert ids["small"].keys() <= ids["small_full"].keys()
    shared = ids["small"].keys() & ids["small_length"].keys()
    assert {ids["small_length"][one] for one in shared} == {
        (f"{kind}-128", seed) for kind in ("cls", "mean", "lmk") for seed in (0, 1, 2)
    }
    shared = ids["small"].keys() & ids["small_attention"].keys()
    assert {ids["small_attention"][one] for one in shared} == {
        (f"{kind}-model", seed) for kind in ("cls", "mean", "lmk") for seed in (0, 1, 2)
    }
    evaluations = {
        name: {evaluation.id for row in plan.rows for evaluation in row.evaluations} for name, plan in plans.items()
    }
    assert evaluations["small"] <= evaluations["small_full"]
    assert len(evaluations["small"] & evaluations["small_length"]) == 3 * 3 * 3


def test_the_full_grid_has_the_eight_kinds_of_table_1(plans: dict[str, Plan], tmp_path: Path) -> None:
    def kinds(plan: Plan) -> set[str]:
        found = set()
        for row in plan.rows:
            trained, read = row.training.config.pooling.to_dict(), row.pooling.to_dict()
            size = trained.get("granularity")
            how = "variable" if isinstance(size, list | tuple) else "sentence" if size == "sentence" else "fixed"
            found.add(f"{read['kind']}, {how}" if read["kind"] == "landmark" else read["kind"])
        return found

    paper = make_plan(load_grid_file("table1"), tmp_path)
    assert len(kinds(paper)) == 8
    assert kinds(plans["small_full"]) == kinds(paper)


def test_documents_fit_whole_with_the_finest_landmarks(plans: dict[str, Plan]) -> None:
    for plan in plans.values():
        assert {one.max_length for row in plan.rows for one in row.evaluations} == {128, 4864}
    assert 2 + 4096 + 4096 // 8 <= 4864


def test_a_reference_to_what_is_not_built_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="built:small/eval/long-512"):
        prepare("small", tmp_path, ("evaluate.suites=[{name: a, tasks: [{name: b, folder: 'built:small/eval/no'}]}]",))
