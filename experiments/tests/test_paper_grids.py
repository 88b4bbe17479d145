"""The paper's grids: what they come to, what each cell is, and that every shipped YAML loads."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from lmk_experiments.configs import load_document, shipped_folder, shipped_names
from lmk_experiments.configs.document import Layers
from lmk_experiments.datasets import load_data_set
from lmk_experiments.grids import Plan, collected, count, load_grid_file, make_plan
from lmk_experiments.grids.bases import Extras, pretraining_names, read_base
from lmk_experiments.grids.schema import BASE_KEYS
from lmk_experiments.tables.spec import TableSpec
from lmk_train.config import PretrainConfig, TrainConfig

PAPER = [f"table{number}" for number in range(1, 7)]
FIGURES = ["fig2", "fig3", "fig4"]
#         fine-tunes, pre-trainings, rows
COUNTS = {
    "table1": (10, 0, 14),
    "table2": (5, 0, 8),
    "table3": (6, 0, 6),
    "table4": (10, 0, 10),
    "table5": (5, 0, 5),
    "table6": (8, 4, 8),
    "table7": (10, 0, 14),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    root = tmp_path_factory.mktemp("root")
    return {name: make_plan(load_grid_file(name), root) for name in COUNTS}


def test_each_grid_alone(plans: dict[str, Plan]) -> None:
    found = {name: count([plan]) for name, plan in plans.items()}
    assert {name: (one.fine_tunes, one.pretrainings, one.rows) for name, one in found.items()} == COUNTS


def test_all_six_together(plans: dict[str, Plan]) -> None:
    assert collected("paper") == [*FIGURES, *PAPER]
    assert collected("appendix") == ["table7"]
    together = asdict(count(plans[name] for name in PAPER))
    assert together.pop("evaluations") == 264
    assert together.pop("analyses") == 0
    assert together == {"fine_tunes": 42, "pretrainings": 4, "rows": 51, "distinct_readings": 49}


def test_figures_train_nothing_that_a_table_does_not(plans: dict[str, Plan], tmp_path: Path) -> None:
    figures = {name: make_plan(load_grid_file(name), tmp_path) for name in FIGURES}
    assert [len(plan.trainings) for plan in figures.values()] == [6, 0, 1]
    of_table4 = {one.id: one.row for one in plans["table4"].trainings}
    assert all(of_table4[one.id] == one.row for one in figures["fig2"].trainings)
    of_table1 = {one.id: one.row for one in plans["table1"].trainings}
    assert [of_table1[one.id] for one in figures["fig4"].trainings] == ["lmk-var"]
    together = count([*(plans[name] for name in PAPER), *figures.values()])
    assert (together.fine_tunes, together.rows, together.analyses) == (42, 51, 3)


def test_figures_are_those_of_sections_3_and_6(tmp_path: Path) -> None:
    found = {}
    for name in FIGURES:
        (analysis,) = make_plan(load_grid_file(name), tmp_path).analyses
        found[name] = analysis.config()
    options = {name: config["options"] for name, config in found.items()}
    assert options["fig2"]["layer"] == -1
    assert max(options["fig2"]["max_length"]) == 8192
    assert options["fig2"]["texts"] == options["fig4"]["texts"]
    assert (options["fig2"]["texts"]["mteb"], options["fig2"]["texts"]["subsets"]) == ("MultiLongDocRetrieval", ["en"])
    assert options["fig3"]["texts"] == {"MS MARCO documents": "data:msmarco-document"}
    assert options["fig3"]["tokenizer"] == "answerdotai/ModernBERT-base"
    assert (options["fig4"]["min_chunks"], options["fig4"]["k"]) == (256, 10)
    assert found["fig4"]["series"][0]["pooling"]["granularity"] == 32


def test_two_fine_tunes_and_their_evaluations_are_shared_with_table_1(plans: dict[str, Plan]) -> None:
    by_id = {training.id: training.row for training in plans["table1"].trainings}
    shared = {training.row: by_id[training.id] for training in plans["table6"].trainings if training.id in by_id}
    assert shared == {"modernbert-base-cls": "cls", "modernbert-base-lmk-var": "lmk-var"}
    first = {evaluation.id for _, evaluation in plans["table1"].evaluations}
    second = {evaluation.id for _, evaluation in plans["table6"].evaluations}
    assert len(first & second) == 2 * 7


def test_tables_read_models_as_the_paper_says(plans: dict[str, Plan]) -> None:
    readings = {name: {row.row: row.pooling.to_dict() for row in plan.rows} for name, plan in plans.items()}
    assert readings["table1"]["multicls-128"] == {"kind": "multi_cls", "every": 128}
    assert readings["table1"]["lmk-var-256"] == {"kind": "landmark", "granularity": 256}
    assert readings["table1"]["lmk-sent"] == {"kind": "landmark", "granularity": "sentence"}
    assert readings["table6"]["gte-en-mlm-base-lmk-var-256-retromae"]["granularity"] == 256
    assert readings["table6"]["modernbert-base-lmk-var-32-retromae"]["granularity"] == 32
    assert {reading["granularity"] for row, reading in readings["table4"].items() if row[:3] == "lmk"} == {32}
    lengths = {evaluation.suite.name: evaluation.max_length for _, evaluation in plans["table1"].evaluations}
    assert lengths.pop("longembed") == 32768
    assert set(lengths.values()) == {8192}


def test_the_rows_stand_in_the_papers_order(plans: dict[str, Plan]) -> None:
    assert [row.row for row in plans["table3"].rows] == [
        f"{model}-{reading}"
        for model in ("gte-en-mlm-base", "modernbert-base")
        for reading in ("cls", "mean", "lmk-var-32")
    ]
    assert [row.row for row in plans["table6"].rows][:4] == [
        "gte-en-mlm-base-cls",
        "gte-en-mlm-base-cls-retromae",
        "gte-en-mlm-base-lmk-var-256",
        "gte-en-mlm-base-lmk-var-256-retromae",
    ]


def test_recipes_are_those_of_section_5(plans: dict[str, Plan]) -> None:
    def recipe(name: str, row: str = "cls") -> tuple[int, ...]:
        config = next(training.config for training in plans[name].trainings if training.row == row)
        assert (config.optim.learning_rate, config.loss.temperature, config.precision) == (2e-5, 0.02, "bf16")
        assert (config.optim.warmup_steps, config.data.query_max_length) == (250, 128)
        optim, data = config.optim, config.data
        return optim.steps, optim.batch_size, data.negatives, data.passage_max_length

    assert recipe("table1") == (5000, 2048, 7, 512)
    assert recipe("table2") == (10000, 1024, 7, 512)
    assert recipe("table3", "modernbert-base-cls") == (5000, 256, 1, 8192)
    assert recipe("table4", "lmk-2048") == (5000, 64, 7, 2048)
    assert recipe("table5") == (5000, 64, 7, 8192)


def test_a_pretraining_has_its_rows_model_and_pooling(plans: dict[str, Plan]) -> None:
    found = {first.row: first.config for first in plans["table6"].pretrainings}
    assert {row: (config.model.path, config.pooling.kind) for row, config in found.items()} == {
        "gte-en-mlm-base-cls-retromae": ("Alibaba-NLP/gte-en-mlm-base", "cls"),
        "modernbert-base-cls-retromae": ("answerdotai/ModernBERT-base", "cls"),
        "gte-en-mlm-base-lmk-var-retromae": ("Alibaba-NLP/gte-en-mlm-base", "landmark"),
        "modernbert-base-lmk-var-retromae": ("answerdotai/ModernBERT-base", "landmark"),
    }
    tuned = next(one for one in plans["table6"].trainings if one.row == "modernbert-base-cls-retromae")
    assert tuned.pretraining is not None
    assert tuned.config.init == f"pretraining:{tuned.pretraining.id}"


# What the paper leaves open, and where the files say how it was decided.
OPEN = {
    "MIRACL of Tables 1 and 6": [("table1", "evaluate.suites.miracl-en"), ("table6", "evaluate.suites.miracl-en")],
    "how many tasks of CoIR": [(f"table{n}", "evaluate.suites.coir8") for n in (1, 3, 6, 7)],
    "steps of the long multilingual runs": [("bge_m3_long", "optim.steps")],
    "the granularity that Table 4 is read at": [("table4", "evaluate.views")],
    "MS MARCO among BEIR's fifteen": [(f"table{n}", "evaluate.suites.beir15") for n in (1, 3, 6, 7)],
    "two metrics in LongEmbed": [(f"table{n}", "evaluate.suites.longembed") for n in range(1, 8)],
    "seeds": [(f"table{n}", "seeds") for n in range(1, 8)],
    "the sentence splitter": [("table1", "train.lmk-sent"), ("table7", "train.lmk-sent")],
    "weight and temperature of distillation": [
        (preset, key)
        for preset in ("msmarco_passage", "msmarco_document", "bge_m3", "bge_m3_long")
        for key in ("loss.distillation", "loss.teacher_temperature")
    ],
    "clipping, decay and warm-up": [
        (preset, f"optim.{key}")
        for preset in ("msmarco_passage", "msmarco_document", "bge_m3", "bge_m3_long", "retromae")
        for key in ("gradient_clip", "weight_decay", "warmup_steps")
    ],
    "which gte-multilingual-base": [("gte-multilingual-base", "model.path")],
    "the form of latent attention": [(f"table{n}", "train.latent") for n in (1, 2, 5, 7)],
    "query length, group and granularity of the long runs": [
        ("bge_m3_long", "data.query_max_length"),
        ("bge_m3_long", "data.negatives"),
        ("table4", "pooling.granularity"),
    ],
    "batch, warm-up and granularity of RetroMAE": [
        ("retromae", "optim.batch_size"),
        ("retromae", "optim.warmup_steps"),
        ("retromae", "pooling.granularity"),
    ],
}


@pytest.mark.parametrize("point", OPEN)
def test_every_open_point_is_said_with_a_reason(point: str, plans: dict[str, Plan]) -> None:
    said = {(Path(one.file).stem, one.key): one.reason for plan in plans.values() for one in plan.assumed}
    for place in OPEN[point]:
        assert len(said[place]) > 20, place


def test_assumptions_are_no_part_of_an_identity(tmp_path: Path) -> None:
    text = (shipped_folder("grids") / "table2.yaml").read_text(encoding="utf-8")
    value = yaml.safe_load(text)
    value["assumed"] = {"seeds": "another reason"}
    value["collection"] = None
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
    plain, other = (make_plan(load_grid_file(name), tmp_path) for name in ("table2", str(tmp_path / "t.yaml")))
    assert [one.id for one in plain.trainings] == [one.id for one in other.trainings]
    assert [one.id for _, one in plain.evaluations] == [one.id for _, one in other.evaluations]


@pytest.mark.parametrize("name", shipped_names("grids"))
def test_every_grid_loads(name: str, tmp_path: Path) -> None:
    plan = make_plan(load_grid_file(name), tmp_path)
    assert plan.rows or plan.analyses
    assert not list(tmp_path.rglob("cell.json"))


@pytest.mark.parametrize("model", shipped_names("models"))
@pytest.mark.parametrize("preset", shipped_names("presets"))
def test_every_preset_is_a_whole_training_with_every_model(preset: str, model: str) -> None:
    layers, extras = Layers(), Extras()
    for kind, name in (("presets", preset), ("models", model)):
        document = load_document(shipped_folder(kind) / f"{name}.yaml")
        layers.add(read_base(document, extras), document)
    assert extras.size is not None
    if preset in pretraining_names():
        assert PretrainConfig.model_validate({**layers.value, "pooling": {"kind": "cls"}}).data.max_length == 8192
    else:
        assert TrainConfig.model_validate(layers.value).model.path


@pytest.mark.parametrize("name", shipped_names("models"))
def test_every_model_file_holds_a_model_and_its_size(name: str) -> None:
    document = load_document(shipped_folder("models") / f"{name}.yaml")
    assert set(document.value) <= {"model", *BASE_KEYS}
    assert document.value["size"]["dim"] == 768


@pytest.mark.parametrize("name", shipped_names("datasets"))
def test_every_data_set_is_declared_under_its_files_name(name: str) -> None:
    assert load_data_set(name).name == name


@pytest.mark.parametrize("name", shipped_names("tables"))
def test_every_table_layout_loads(name: str) -> None:
    assert TableSpec.model_validate(load_document(shipped_folder("tables") / f"{name}.yaml").value).columns
