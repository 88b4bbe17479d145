"""A grid file: what it expands to, who its cells are, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lmk_experiments.configs import ConfigError
from lmk_experiments.grids import Plan, identity, load_grid_file, make_plan
from lmk_experiments.records import training_cell

GRID = {
    "grid": "g",
    "title": "A grid",
    "base": ["base.yaml"],
    "train": [
        {"row": "cls", "pooling": {"kind": "cls"}, "baseline": True},
        {"row": "lmk-{g}", "pooling": {"kind": "landmark", "granularity": "{g}"}, "for": {"g": [32, 64]}},
        {"row": "lmk-var", "pooling": {"kind": "landmark", "granularity": [32, 64]}},
    ],
    "evaluate": {
        "suites": [{"name": "short", "tasks": [{"name": "t", "folder": "beir"}]}],
        "max_length": 128,
        "views": [
            {"of": "*", "except": ["lmk-var"]},
            {"of": "cls", "row": "multicls", "pooling": {"kind": "multi_cls", "every": 16}},
            {"of": "lmk-var", "row": "lmk-var-{g}", "pooling": {"granularity": "{g}"}, "for": {"g": [32, 64]}},
        ],
    },
}
BASE = {
    "model": {"path": "./model"},
    "pooling": {"kind": "cls"},
    "data": {"train": ["train.jsonl"], "negatives": 1},
    "optim": {"steps": 4, "batch_size": 8, "learning_rate": 0.001},
    "precision": "fp32",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    (tmp_path / "model/model.safetensors").write_bytes(b"")
    (tmp_path / "beir/qrels").mkdir(parents=True)
    (tmp_path / "beir/corpus.jsonl").write_text('{"_id": "a", "text": "b"}\n')
    (tmp_path / "beir/queries.jsonl").write_text('{"_id": "q", "text": "b"}\n')
    (tmp_path / "beir/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    (tmp_path / "train.jsonl").write_text('{"query": "q", "pos": ["p"], "neg": ["n"]}\n')
    write(tmp_path / "base.yaml", BASE)
    write(tmp_path / "g.yaml", GRID)
    return tmp_path


def write(path: Path, value: object) -> None:
    path.write_text(yaml.safe_dump(value, sort_keys=False))


def planned(folder: Path, *assignments: str) -> Plan:
    return make_plan(load_grid_file(str(folder / "g.yaml"), assignments), folder / "runs")


def changed(folder: Path, **changes: object) -> None:
    write(folder / "g.yaml", {**GRID, **changes})


def problems(folder: Path, *assignments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        planned(folder, *assignments)
    return str(caught.value)


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "g.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_rows_and_trainings(folder: Path) -> None:
    plan = planned(folder)
    assert [training.row for training in plan.trainings] == ["cls", "lmk-32", "lmk-64", "lmk-var"]
    assert [row.row for row in plan.rows] == ["cls", "lmk-32", "lmk-64", "multicls", "lmk-var-32", "lmk-var-64"]
    assert [row.row for row in plan.rows if row.baseline] == ["cls"]
    readings = {row.row: row.pooling.to_dict() for row in plan.rows}
    assert readings["lmk-32"] == {"kind": "landmark", "granularity": 32}, "the variable keeps its type"
    assert readings["multicls"] == {"kind": "multi_cls", "every": 16}
    assert readings["lmk-var-64"] == {"kind": "landmark", "granularity": 64}
    assert {row.training.row for row in plan.rows if row.row.startswith("lmk-var")} == {"lmk-var"}
    assert len({training.id for training in plan.trainings}) == 4
    assert len({evaluation.id for _, evaluation in plan.evaluations}) == 6


def test_planning_writes_no_cell(folder: Path) -> None:
    plan = planned(folder)
    assert plan.trainings[0].id is not None
    assert not training_cell(folder / "runs", plan.trainings[0].id).folder.exists()


def test_a_variable_model_is_read_at_its_smallest_granularity(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "views": [{"of": "lmk-var"}]})
    assert planned(folder).rows[0].pooling.to_dict() == {"kind": "landmark", "granularity": 32}


def test_seeds_multiply_trainings_and_rows(folder: Path) -> None:
    changed(folder, seeds=[0, 1, 2])
    plan = planned(folder)
    assert (len(plan.trainings), len(plan.rows)) == (12, 18)
    assert len({training.id for training in plan.trainings}) == 12
    assert plan.trainings[1].config.seed == 1


def test_when_keeps_some_combinations(folder: Path) -> None:
    row = {"row": "lmk-{g}", "pooling": {"kind": "landmark", "granularity": "{g}"}, "for": {"g": [32, 64]}}
    changed(
        folder,
        train=[GRID["train"][0], {**row, "when": {"g": 64}}],
        evaluate={**GRID["evaluate"], "views": [{"of": "*"}]},
    )
    assert [training.row for training in planned(folder).trainings] == ["cls", "lmk-64"]


def test_max_length_by_suite(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "max_length": {"default": 64, "short": 256}})
    assert planned(folder).rows[0].evaluations[0].max_length == 256


def test_identity_counts_what_changes_the_weights_and_nothing_else(folder: Path) -> None:
    before = [training.id for training in planned(folder).trainings]
    assert [training.id for training in planned(folder, "runtime.threads=1").trainings] == before
    assert [training.id for training in planned(folder, "runtime.checkpoint_every=7").trainings] == before
    for change in ("optim.steps=5", "optim.learning_rate=0.002", "loss.temperature=0.05", "recipe_version=2"):
        after = [training.id for training in planned(folder, change).trainings]
        assert not set(after) & set(before), change


def test_identity_follows_the_content_not_the_name(folder: Path) -> None:
    before = planned(folder).trainings[0].id
    (folder / "train.jsonl").rename(folder / "other.jsonl")
    write(folder / "base.yaml", {**BASE, "data": {"train": ["other.jsonl"], "negatives": 1}})
    assert planned(folder).trainings[0].id == before
    (folder / "other.jsonl").write_text('{"query": "q2", "pos": ["p"], "neg": ["n"]}\n')
    assert planned(folder).trainings[0].id != before


def test_identity_does_not_depend_on_the_order_of_keys(folder: Path) -> None:
    before = planned(folder).trainings[0].id
    write(folder / "base.yaml", dict(reversed(BASE.items())))
    assert planned(folder).trainings[0].id == before


def test_identity_is_twelve_hex_digits_of_sha256() -> None:
    # printf '{"a":[1.5,null],"b":1}' | sha256sum
    assert identity({"b": 1, "a": [1.5, None]}, lambda reference: reference) == "cf0c4895ed70"


def test_set_changes_the_grid_or_every_training(folder: Path) -> None:
    plan = planned(folder, "optim.steps=9", "evaluate.max_length=64", "title=Other")
    assert {training.config.optim.steps for training in plan.trainings} == {9}
    assert plan.rows[0].evaluations[0].max_length == 64
    assert plan.title == "Other"


def test_an_unknown_key_at_the_top(folder: Path) -> None:
    changed(folder, seedz=[0])
    assert problems(folder).endswith(
        f"g.yaml:{line_of(folder, 'seedz')}: seedz: unknown key; did you mean 'seeds'? "
        "Valid: grid, title, base, seeds, train, evaluate, analyze, rows, resources, table, assumed, collection"
    )


def test_an_unknown_key_of_a_training(folder: Path) -> None:
    changed(folder, train=[{"row": "cls", "optim": {"stepz": 3}}], evaluate={**GRID["evaluate"], "views": []})
    said = problems(folder)
    assert f"g.yaml:{line_of(folder, 'stepz')}: optim.stepz: unknown key; did you mean 'steps'?" in said


def test_an_unknown_key_in_a_base_names_the_base(folder: Path) -> None:
    write(folder / "base.yaml", {**BASE, "optim": {**BASE["optim"], "momentum": 0.9}})
    said = problems(folder)
    assert "base.yaml:" in said
    assert "optim.momentum: unknown key; valid: steps, batch_size" in said.replace("Valid", "valid")


def test_an_unknown_pooling_kind(folder: Path) -> None:
    changed(folder, train=[{"row": "cls", "pooling": {"kind": "clss"}}], evaluate={**GRID["evaluate"], "views": []})
    said = problems(folder)
    assert f"g.yaml:{line_of(folder, 'clss')}: pooling.kind: " in said
    for kind in ("cls", "mean", "mean_at_k", "latent_attention", "landmark"):
        assert kind in said


def test_a_view_of_a_row_that_is_not_there(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "views": [{"of": "lmk-vat"}]})
    said = problems(folder)
    assert f"g.yaml:{line_of(folder, 'lmk-vat')}: evaluate.views[0]: no training row is called 'lmk-vat'" in said
    assert "did you mean 'lmk-var'? Valid: cls, lmk-32, lmk-64, lmk-var" in said


def test_the_same_row_twice(folder: Path) -> None:
    changed(folder, train=[GRID["train"][0], GRID["train"][2], GRID["train"][0]])
    assert "train[2].row: row 'cls' stands here twice" in problems(folder)


def test_the_same_training_under_two_names(folder: Path) -> None:
    changed(folder, train=[*GRID["train"], {"row": "cls2", "pooling": {"kind": "cls"}}])
    assert "row 'cls2' is the same training as row 'cls'" in problems(folder)


def test_the_same_row_of_the_table_twice(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "views": [{"of": "cls"}, {"of": "cls"}]})
    assert "evaluate.views[1]: row 'cls' stands in the table twice" in problems(folder)


def test_a_missing_file(folder: Path) -> None:
    (folder / "train.jsonl").unlink()
    said = problems(folder)
    assert "base.yaml:" in said
    assert "data.train[0]: no such file or folder: " in said


def test_a_missing_suite_folder(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "suites": [{"name": "s", "tasks": [{"name": "t", "folder": "no"}]}]})
    assert f"g.yaml:{line_of(folder, 'folder: ')}: evaluate.suites[0].tasks[0].folder: no such" in problems(folder)


def test_a_missing_grid_lists_what_ships(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"quickstrat: no such grid; did you mean 'quickstart'\? Valid: .*quickstart"):
        load_grid_file("quickstrat")


def test_a_missing_base(folder: Path) -> None:
    changed(folder, base=["presets/msmarco"])
    assert f"g.yaml:{line_of(folder, 'presets/msmarco')}: base[0]: no such preset; " in problems(folder)


def test_a_name_that_is_no_folder(folder: Path) -> None:
    changed(folder, grid="../../etc")
    assert "grid: '../../etc' cannot be a name" in problems(folder)


def test_a_variable_that_for_does_not_define(folder: Path) -> None:
    changed(folder, train=[{"row": "lmk-{h}", "for": {"g": [1]}}])
    assert "train[0]: 'lmk-{h}' uses {h}, which 'for' does not define; valid: g" in problems(folder)


@pytest.mark.parametrize(
    ("seeds", "said"),
    [([0, 0], "seed 0 stands here twice"), ([-1], "greater than or equal to 0"), ([2**32], "less than 4294967296")],
)
def test_seeds_that_are_none(folder: Path, seeds: list[int], said: str) -> None:
    changed(folder, seeds=seeds)
    told = problems(folder)
    assert ": seeds" in told
    assert said in told


def test_a_seed_is_given_as_seeds(folder: Path) -> None:
    assert "--set seed=5: seed: a grid trains every row once for each of its `seeds`" in problems(folder, "seed=5")
    changed(folder, train=[{**GRID["train"][0], "seed": 7}], evaluate={**GRID["evaluate"], "views": []})
    assert f"g.yaml:{line_of(folder, 'seed: 7')}: train[0].seed: a grid trains" in problems(folder)


def test_a_model_folder_beside_the_file_is_not_taken_for_a_hub_name(folder: Path) -> None:
    write(folder / "base.yaml", {**BASE, "model": {"path": "model"}})
    assert "base.yaml:2: model.path: is it the folder beside this file" in problems(folder)


@pytest.mark.parametrize("length", [-3, 1, {"default": 64, "short": 0}])
def test_a_length_that_is_none(folder: Path, length: object) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "max_length": length})
    told = problems(folder)
    assert "evaluate.max_length" in told
    assert "greater than or equal to 2" in told


def test_a_length_of_no_suite(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "max_length": {"default": 64, "shrot": 256}})
    told = problems(folder)
    assert f"g.yaml:{line_of(folder, 'shrot')}: evaluate.max_length.shrot: " in told
    assert "'short'" in told


def test_two_suites_of_one_name(folder: Path) -> None:
    suites = GRID["evaluate"]["suites"] * 2
    changed(folder, evaluate={**GRID["evaluate"], "suites": suites})
    assert "evaluate.suites[1]" in problems(folder)
    assert "'short'" in problems(folder)


def test_two_baselines(folder: Path) -> None:
    rows = [GRID["train"][0], {**GRID["train"][2], "baseline": True}]
    changed(folder, train=rows, evaluate={**GRID["evaluate"], "views": [{"of": "*"}]})
    assert "a table has one baseline; these rows say they are it: cls, lmk-var" in problems(folder)


def test_latent_attention_is_read_as_it_was_trained(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "views": [{"of": "cls", "pooling": {"kind": "latent_attention"}}]})
    assert "'cls' cannot be read as 'latent_attention'" in problems(folder)


def test_a_key_twice(folder: Path) -> None:
    text = (folder / "g.yaml").read_text()
    (folder / "g.yaml").write_text(text + "title: again\n")
    assert "title: stands here twice (first in line 2)" in problems(folder)


def test_not_yaml(folder: Path) -> None:
    (folder / "g.yaml").write_text("grid: [1\n")
    assert "g.yaml:2: not valid YAML" in problems(folder)


@pytest.mark.parametrize("text", ["optim.steps", "=3", "optim..steps=3"])
def test_a_set_that_is_none(folder: Path, text: str) -> None:
    assert "expected KEY=VALUE" in problems(folder, text)


def test_a_wrong_type_names_what_was_found(folder: Path) -> None:
    said = problems(folder, "optim.steps=many")
    assert said.startswith("--set optim.steps=many: optim.steps: ")
    assert "'many'" in said


def test_every_problem_is_told_at_once(folder: Path) -> None:
    changed(folder, train=[{"row": "a", "pooling": {"kind": "x"}}, {"row": "b", "optim": {"steps": -1}}])
    said = problems(folder)
    assert "pooling.kind" in said
    assert "optim.steps" in said


def test_null_in_for_is_no_pretraining(folder: Path) -> None:
    before = planned(folder).trainings[0].id
    write(folder / "pre.yaml", {"method": "retromae", "data": {"train": ["train.jsonl"]}, "optim": BASE["optim"]})
    row = {"row": "cls-{init}", "pooling": {"kind": "cls"}, "init": "{init}", "for": {"init": [None, "pre.yaml"]}}
    changed(folder, train=[row], evaluate={**GRID["evaluate"], "views": [{"of": "*"}]})
    plan = planned(folder)
    assert [training.row for training in plan.trainings] == ["cls-null", "cls-pre.yaml"]
    assert plan.trainings[0].id == before
    assert plan.trainings[1].id != before
    (first,) = plan.pretrainings
    assert plan.trainings[1].config.init == f"pretraining:{first.id}"
    (folder / "train.jsonl").write_text('{"query": "q2", "pos": ["p"], "neg": ["n"]}\n')
    assert planned(folder).pretrainings[0].id != first.id


def test_a_pretrainings_recipe_counts_in_its_fine_tune(folder: Path) -> None:
    recipe = {"method": "retromae", "data": {"train": ["train.jsonl"]}, "optim": BASE["optim"]}
    write(folder / "pre.yaml", recipe)
    changed(folder, train=[{"row": "cls", "init": "pre.yaml"}], evaluate={**GRID["evaluate"], "views": [{"of": "*"}]})
    before = planned(folder).trainings[0].id
    write(folder / "pre.yaml", {**recipe, "masking": {"encoder": 0.15}})
    assert planned(folder).trainings[0].id != before
    write(folder / "pre.yaml", {**recipe, "runtime": {"num_workers": 7}})
    assert planned(folder).trainings[0].id == before


def test_two_rows_may_start_from_one_pretraining(folder: Path) -> None:
    recipe = {"method": "retromae", "data": {"train": ["train.jsonl"]}, "optim": BASE["optim"]}
    write(folder / "pre.yaml", recipe)
    rows = [{"row": f"cls-{steps}", "init": "pre.yaml", "optim": {"steps": steps}} for steps in (4, 5)]
    changed(folder, train=rows, evaluate={**GRID["evaluate"], "views": [{"of": "*"}]})
    plan = planned(folder)
    assert (len(plan.trainings), len(plan.pretrainings)) == (2, 1)


def test_a_row_with_a_base_of_its_own_and_a_view_by_its_variable(folder: Path) -> None:
    for name in ("one", "two"):
        write(folder / f"{name}.yaml", {"model": {"path": f"org/{name}"}})
    row = {"row": "{m}-lmk", "base": ["{m}.yaml"], "pooling": GRID["train"][2]["pooling"], "for": {"m": ["one", "two"]}}
    views = [
        {"of": "*-lmk", "when": {"m": "one"}, "row": "{m}-at-64", "pooling": {"granularity": 64}},
        {"of": "*-lmk", "when": {"m": ["two"]}, "row": "{m}-at-32", "pooling": {"granularity": 32}},
    ]
    changed(folder, train=[row], evaluate={**GRID["evaluate"], "views": views})
    plan = planned(folder)
    assert [training.config.model.path for training in plan.trainings] == ["org/one", "org/two"]
    assert [(row.row, row.pooling.granularity) for row in plan.rows] == [("one-at-64", 64), ("two-at-32", 32)]


def test_suites_by_name(folder: Path) -> None:
    changed(folder, evaluate={**GRID["evaluate"], "suites": ["mldr-en", "longembed", GRID["evaluate"]["suites"][0]]})
    suites = [evaluation.suite for evaluation in planned(folder).rows[0].evaluations]
    assert [suite.name for suite in suites] == ["mldr-en", "longembed", "short"]
    assert suites[0].tasks[0].subsets == ("en",)


def test_a_file_that_changed_is_read_again(folder: Path) -> None:
    assert planned(folder).trainings[0].config.optim.steps == 4
    write(folder / "base.yaml", {**BASE, "optim": {**BASE["optim"], "steps": 11}})
    assert planned(folder).trainings[0].config.optim.steps == 11
