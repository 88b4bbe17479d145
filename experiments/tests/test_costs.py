"""What a plan costs: the formula on numbers that are known, measured speed, and what is said where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lmk_eval.suites import Suite, Task, shipped_suite
from lmk_experiments.configs import ConfigError
from lmk_experiments.costs import (
    Throughput,
    evaluation_cost,
    load_throughput,
    plan_costs,
    pretraining_cost,
    training_cost,
)
from lmk_experiments.costs.estimate import FLOPS
from lmk_experiments.costs.tokens import mean_cut, suite_tokens, training_tokens
from lmk_experiments.grids import ModelSize, collected, load_grid_file, make_plan
from lmk_train.config import PretrainConfig, TrainConfig

SIZE = ModelSize(parameters=110_000_000, embedding_parameters=40_000_000, dim=768)
TABLE_1 = {
    "model": {"path": "org/model"},
    "pooling": {"kind": "cls"},
    "data": {"train": ["/own.jsonl"], "negatives": 7, "query_max_length": 128, "passage_max_length": 512},
    "optim": {"steps": 5000, "batch_size": 2048, "learning_rate": 2e-5},
    "precision": "bf16",
}


def test_the_upper_bound_of_a_training_of_table_1() -> None:
    """Every text at its longest: 5000 x 2048 x (128 + 8 x 512) tokens, 3.8e19 operations, 26 hours of an H100."""
    cost = training_cost(TrainConfig.model_validate(TABLE_1), SIZE)
    assert cost.tokens == 5000 * 2048 * (128 + 8 * 512) == pytest.approx(4.3e10, rel=0.01)
    assert cost.gpu_hours == pytest.approx(26.4, abs=0.1)
    assert cost.gpu_hours * 3600 * FLOPS["bfloat16"] == pytest.approx(3.8e19, rel=0.01)
    assert cost.basis == "formula, 8 FLOP a parameter and token at 400 TFLOP/s in bfloat16"
    assert cost.lengths == "every text at its longest"


def test_mean_lengths_of_the_data_where_they_are_declared() -> None:
    config = TrainConfig.model_validate({**TABLE_1, "data": {**TABLE_1["data"], "train": ["data:msmarco-passage"]}})
    tokens = training_tokens(config)
    assert tokens.tokens == pytest.approx(5000 * 2048 * (9 + 8 * 77), rel=0.01)
    assert tokens.basis == "mean lengths of msmarco-passage"


def test_disk_of_a_training() -> None:
    cost = training_cost(TrainConfig.model_validate(TABLE_1), SIZE)
    assert cost.kept_gb == pytest.approx(0.6)
    assert cost.passing_gb == pytest.approx(1.8)


def test_a_longer_cut_never_costs_less() -> None:
    means = [mean_cut(400, longest) for longest in (64, 512, 1024, 8192)]
    assert means == sorted(means)
    assert means[0] <= 64
    assert means[-1] == pytest.approx(400)


def test_measured_speed_goes_before_the_formula(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("throughput: {train: 1000000}\nanything: {of: the cluster}\n")
    speed = load_throughput(str(tmp_path / "p.yaml"))
    assert speed == Throughput(1_000_000, None, "p.yaml")
    cost = training_cost(TrainConfig.model_validate(TABLE_1), SIZE, speed)
    assert cost.gpu_hours == pytest.approx(4.3e10 / 1e6 / 3600, rel=0.01)
    assert cost.basis == "measured, 1,000,000 tokens/s a GPU (p.yaml)"
    reading = evaluation_cost(shipped_suite("mldr-en"), 8192, SIZE, tmp_path, speed)
    assert reading.basis.startswith("formula, 2 FLOP"), "that speed was not measured"


def test_the_type_that_will_run_decides_the_hours(tmp_path: Path) -> None:
    suite = shipped_suite("mldr-en")
    full, half = (evaluation_cost(suite, 8192, SIZE, tmp_path, weights=kind) for kind in ("float32", "bfloat16"))
    assert full == evaluation_cost(suite, 8192, SIZE, tmp_path)
    assert (full.gpu_hours or 0) / (half.gpu_hours or 1) == pytest.approx(400 / 27)
    assert (full.basis[-30:], half.basis[-32:]) == (
        "token at 27 TFLOP/s in float32",
        "token at 400 TFLOP/s in bfloat16",
    )
    single = training_cost(TrainConfig.model_validate({**TABLE_1, "precision": "fp32"}), SIZE)
    mixed = training_cost(TrainConfig.model_validate({**TABLE_1, "precision": "bf16"}), SIZE)
    assert (single.gpu_hours or 0) / (mixed.gpu_hours or 1) == pytest.approx(400 / 27)


def test_a_measured_speed_is_of_one_type(tmp_path: Path) -> None:
    suite, path = shipped_suite("mldr-en"), tmp_path / "p.yaml"
    for text, measured in (("5000", ["float32"]), ("{bfloat16: 5000}", ["bfloat16"])):
        path.write_text(f"throughput: {{evaluate: {text}}}\n")
        for kind in ("float32", "bfloat16"):
            cost = evaluation_cost(suite, 8192, SIZE, tmp_path, load_throughput(str(path)), weights=kind)
            assert cost.basis.startswith("measured, 5,000 tokens/s" if kind in measured else "formula"), (text, kind)
    path.write_text("throughput: {evaluate: {int8: 5000}}\n")
    with pytest.raises(ConfigError, match="throughput"):
        load_throughput(str(path))


def test_plans_follow_the_grids_type(tmp_path: Path) -> None:
    hours = []
    for assignments in ((), ("evaluate.weights=bfloat16",)):
        plan = make_plan(load_grid_file("table5", assignments), tmp_path)
        hours.append(plan_costs([plan], tmp_path, None, lambda kind, identity: False).of("evaluation").gpu_hours or 0)
    assert hours[0] / hours[1] == pytest.approx(400 / 27)


def test_a_profile_that_measured_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("partition: gpu\n")
    assert load_throughput(str(tmp_path / "p.yaml")) is None


def test_a_pretraining_is_one_forward_and_one_backward() -> None:
    config = PretrainConfig.model_validate(
        {
            **{key: TABLE_1[key] for key in ("model", "pooling", "optim", "precision")},
            "method": "retromae",
            "data": {"train": ["data:retromae-225k"], "max_length": 8192},
        }
    )
    cost = pretraining_cost(config, SIZE)
    assert cost.gpu_hours == pytest.approx(6 * 110e6 * 5000 * 2048 * 1000 / 400e12 / 3600, rel=0.01)


def test_an_evaluation_reads_every_text_once(tmp_path: Path) -> None:
    cost = evaluation_cost(shipped_suite("msmarco-dev"), 8192, SIZE, tmp_path)
    assert cost.tokens == pytest.approx((2_969_059_106 + 232_170) / 4, rel=0.01)
    tokens_gb = (cost.tokens or 0) * 4 / 1e9
    assert cost.passing_gb == pytest.approx(8_841_823 * 768 * 4 / 1e9 + tokens_gb, rel=0.001)
    half = evaluation_cost(shipped_suite("msmarco-dev"), 8192, SIZE, tmp_path, storage="bfloat16")
    assert half.passing_gb == pytest.approx(8_841_823 * 768 * 2 / 1e9 + tokens_gb, rel=0.001)
    assert cost.kept_gb == 0
    beir = evaluation_cost(shipped_suite("beir15"), 8192, SIZE, tmp_path)
    largest_gb = 8_841_823 * 768 * 4 / 1e9
    assert beir.passing_gb == pytest.approx(largest_gb + (beir.tokens or 0) * 4 / 1e9, rel=0.001), (
        "one corpus at a time"
    )
    longer = [suite_tokens(shipped_suite("longembed"), length, tmp_path) for length in (512, 32768)]
    assert longer[0] is not None
    assert longer[1] is not None
    assert longer[0].tokens < longer[1].tokens / 5


def test_chinese_has_more_tokens_a_character(tmp_path: Path) -> None:
    task = shipped_suite("mldr-13").tasks[0]

    def of(language: str) -> float:
        suite = Suite(name="s", tasks=(task.model_copy(update={"subsets": (language,)}),))
        found = suite_tokens(suite, 10**9, tmp_path)
        assert found is not None
        return found.tokens / (found.characters or 1)

    assert of("zh") == pytest.approx(1 / 1.5, rel=0.01)
    assert of("en") == pytest.approx(1 / 4, rel=0.01)


def test_haystacks_have_the_lengths_that_they_are_made_of(tmp_path: Path) -> None:
    task = Task(name="needle", needle="any.txt", lengths=(256, 1024))
    found = suite_tokens(Suite(name="s", tasks=(task,)), 512, tmp_path)
    assert found is not None
    assert (found.tokens, found.largest) == (100 * (256 + 512), 100)


def test_local_sets_by_their_size(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("x" * 4000)
    (tmp_path / "queries.jsonl").write_text("x" * 400)
    cost = evaluation_cost(Suite.from_folder("own", tmp_path), 512, SIZE, tmp_path)
    assert cost.tokens == 1100
    assert cost.passing_gb is None


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    assert training_cost(TrainConfig.model_validate(TABLE_1), None).basis.startswith("unknown: how large the model is")
    assert evaluation_cost(Suite.from_folder("own", tmp_path), 512, SIZE, tmp_path).basis.startswith(
        "unknown: how much"
    )


def test_shared_cells_are_paid_once(tmp_path: Path) -> None:
    plans = [make_plan(load_grid_file(name), tmp_path) for name in ("table1", "table6")]
    together = plan_costs(plans, tmp_path, None, lambda kind, identity: False)
    alone = [plan_costs([plan], tmp_path, None, lambda kind, identity: False) for plan in plans]
    assert len(together.cells) == sum(len(one.cells) for one in alone) - 2 - 14
    hours = together.of("training").gpu_hours
    assert hours == pytest.approx((10 + 8 - 2) / 10 * (alone[0].of("training").gpu_hours or 0), rel=0.05)


def test_every_subset_of_a_task_is_in_the_cache_once(tmp_path: Path) -> None:
    def texts_gb(*suites: str) -> float:
        value = {
            "grid": "g",
            "base": ["msmarco_passage", "models/modernbert-base"],
            "train": [{"row": "a"}],
            "evaluate": {"suites": list(suites), "max_length": 512},
        }
        (tmp_path / "g.yaml").write_text(yaml.safe_dump(value))
        plan = make_plan(load_grid_file(str(tmp_path / "g.yaml")), tmp_path)
        return plan_costs([plan], tmp_path, None, lambda kind, identity: False).texts_gb

    assert texts_gb("mldr-13") > texts_gb("mldr-en") > 0
    together = texts_gb("mldr-13"), texts_gb("mldr-en", "mldr-13"), texts_gb("mldr-13", "mldr-en")
    assert len(set(together)) == 1, "English is one of the thirteen"


def test_what_is_done_is_not_left(tmp_path: Path) -> None:
    plan = make_plan(load_grid_file("table5"), tmp_path)
    done = plan.trainings[0].id
    costs = plan_costs([plan], tmp_path, None, lambda kind, identity: identity == done)
    value = costs.to_json()
    first = costs.cells["training", str(done)].gpu_hours
    assert value["gpu_hours"] - value["gpu_hours_left"] == pytest.approx(first, abs=0.002)


def test_every_cell_of_the_paper_has_a_cost(tmp_path: Path) -> None:
    plans = [make_plan(load_grid_file(name), tmp_path) for name in collected("paper")]
    value = plan_costs(plans, tmp_path, None, lambda kind, identity: False).to_json()
    assert value["cells_unknown"] == 0
    assert all(value["disk_gb"].values())
    assert value["gpu_hours"] == pytest.approx(sum(value["gpu_hours_by_kind"].values()), abs=0.01)


def test_another_model_in_a_row_does_not_keep_the_size(tmp_path: Path) -> None:
    value = {
        "grid": "g",
        "base": ["msmarco_passage", "models/modernbert-base"],
        "train": [{"row": "a"}, {"row": "b", "model": {"path": "org/other"}}],
        "evaluate": {"suites": ["mldr-en"], "max_length": 512},
    }
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(value))
    plan = make_plan(load_grid_file(str(tmp_path / "g.yaml")), tmp_path)
    assert [training.size is None for training in plan.trainings] == [False, True]
