"""Rows whose results MTEB wrote elsewhere: in the plan, the status and the table, and what is wrong with a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lmk_eval import Suite, Task
from lmk_experiments.cli.main import app
from lmk_experiments.configs import ConfigError
from lmk_experiments.elsewhere import read_results
from lmk_experiments.grids import load_grid_file, make_plan
from lmk_experiments.jobs.fan import write_cells
from lmk_experiments.tables import Comparing, TableSpec, grid_table, render
from lmk_experiments.tables.load import load_table

SUITE = Suite(
    name="both",
    tasks=(
        Task(name="Mldr", mteb="MultiLongDocRetrieval", split="test", subsets=("de", "en")),
        Task(name="NFCorpus", mteb="NFCorpus", split="test"),
    ),
)


def entry(subset: str, ndcg: float, **other: float) -> dict:
    metrics = {"precision_at_1": 0.1, "recall_at_10": 0.2, "recall_at_100": 0.3, "mrr_at_10": 0.4}
    return {"hf_subset": subset, "languages": ["deu-Latn"], "main_score": ndcg, "ndcg_at_10": ndcg, **metrics, **other}


def write(folder: Path, task: str, splits: dict[str, list[dict]], **other) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task}.json"
    path.write_text(
        json.dumps({"task_name": task, "dataset_revision": "x", "mteb_version": "2.26.24", "scores": splits, **other})
    )
    return path


@pytest.fixture
def results(tmp_path) -> Path:
    """As MTEB's results folder has it: the model, its revision, a file a task, and the model's own file."""
    folder = tmp_path / "results" / "BAAI__bge-m3" / "5617a9f6"
    languages = [entry("de", 0.5), entry("en", 0.7), entry("fr", 0.0)]
    write(folder, "MultiLongDocRetrieval", {"dev": [entry("de", 0.0)], "test": languages})
    (folder / "model_meta.json").write_text("{}")
    return folder.parent


def test_only_the_suites_splits_and_subsets_count(results):
    found = read_results("bge-m3", results, [SUITE])
    assert found.scores == {
        "both": {
            "Mldr": {
                "ndcg_at_10": 0.6,
                "precision_at_1": 0.1,
                "recall_at_10": 0.2,
                "recall_at_100": 0.3,
                "mrr_at_10": 0.4,
                "main_score": 0.6,
            }
        }
    }
    assert found.missing == {"both": ["NFCorpus"]}
    assert found.counts == (1, 2)


def test_a_task_without_one_of_its_languages_is_missing_and_named(results):
    write(results / "5617a9f6", "MultiLongDocRetrieval", {"test": [entry("en", 0.7)]})
    write(results / "5617a9f6", "NFCorpus", {"test": [entry("default", 0.3)]})
    found = read_results("bge-m3", results, [SUITE])
    assert found.missing == {"both": ["Mldr (de)"]}
    assert found.scores["both"]["NFCorpus"]["main_score"] == 0.3


def test_the_suites_metric_is_the_main_score(results):
    suite = SUITE.model_copy(update={"tasks": (SUITE.tasks[0].model_copy(update={"metric": "precision_at_1"}),)})
    assert read_results("x", results, [suite]).scores["both"]["Mldr"]["main_score"] == 0.1


def test_an_old_result_is_converted_by_mteb_itself(tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    scores = {key: value for key, value in entry("default", 0.25).items() if key not in ("hf_subset", "languages")}
    scores.pop("main_score")
    old = {"mteb_dataset_name": "NFCorpus", "mteb_version": "1.2.0", "dataset_revision": None, "test": scores}
    (folder / "NFCorpus.json").write_text(json.dumps(old))
    assert read_results("old", folder, [SUITE]).scores["both"]["NFCorpus"]["ndcg_at_10"] == 0.25


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "NFCorpus.json: cannot be read as JSON"),
        ("[]", "NFCorpus.json: an object is expected"),
        ('{"task_name": "NFCorpus"}', "NFCorpus.json: scores: an object of splits is expected, found nothing"),
        ('{"scores": {"test": 3}}', "NFCorpus.json: scores.test: a list of subsets is expected, found 3"),
        ('{"scores": {"test": [{"main_score": 1}]}}', "scores.test[0].hf_subset: the subset's name is expected"),
        (
            '{"scores": {"test": [{"hf_subset": "default", "main_score": "high"}]}}',
            'scores.test[0].main_score: a number is expected, found "high"',
        ),
        ('{"scores": {"test": [{"hf_subset": "default", "main_score": NaN}]}}', "NFCorpus.json: task 'NFCorpus': "),
    ],
)
def test_a_wrong_file_is_told_by_name_and_key(results, content, told):
    (results / "5617a9f6" / "NFCorpus.json").write_text(content)
    with pytest.raises(ValueError, match="NFCorpus") as error:
        read_results("bge-m3", results, [SUITE])
    assert told in str(error.value)


def test_a_folder_must_be_one_models_results(results, tmp_path):
    write(results / "other", "NFCorpus", {"test": [entry("default", 0.3)]})
    with pytest.raises(ValueError, match="results stand in 2 folders below; name one: 5617a9f6, other"):
        read_results("bge-m3", results, [SUITE])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no results of MTEB \(<Task>.json\)"):
        read_results("bge-m3", tmp_path / "empty", [SUITE])
    write(tmp_path / "foreign", "Banking77", {"test": [entry("default", 0.3)]})
    told = r"none of the grid's tasks is here; wanted: MultiLongDocRetrieval.json, NFCorpus.json; found: \w+.json$"
    with pytest.raises(ValueError, match=told):
        read_results("bge-m3", tmp_path / "foreign", [SUITE])


def test_the_folder_that_lmk_evaluate_writes_is_taken(results):
    (results / "fingerprints.json").write_text("{}")  # beside its results
    assert read_results("own", results, [SUITE]).scores["both"]


@pytest.fixture
def grid(tmp_path, results) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"""
grid: mine
base: [presets/quickstart]
train:
  - {{row: cls, pooling: {{kind: cls}}, baseline: true}}
evaluate:
  max_length: 64
  suites:
    - name: both
      tasks:
        - {{name: Mldr, mteb: MultiLongDocRetrieval, split: test, subsets: [de, en]}}
        - {{name: NFCorpus, mteb: NFCorpus, split: test}}
rows:
  - {{row: bge-m3, results: {results.relative_to(tmp_path)}}}
"""
    )
    return path


def lmk(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_in_the_plan_it_costs_nothing(grid, tmp_path):
    text = lmk("plan", grid, "--root", tmp_path / "runs")
    line = next(line for line in text.splitlines() if line.startswith("bge-m3 "))
    assert "results of MTEB, 1 of 2 tasks" in line
    assert line.split()[-4:] == ["0", "0", "0.0", "0.0"]
    assert "1 trainings (0 done), 1 rows and 1 from elsewhere, 1 evaluations (0 done)" in text
    assert "bge-m3: its results do not hold NFCorpus" in text
    told = json.loads(lmk("plan", grid, "--json", "--root", tmp_path / "runs"))
    assert told["elsewhere"][0]["missing"] == {"both": ["NFCorpus"]}
    assert [row["row"] for row in told["rows"]] == ["cls"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("results: results", "results: nowhere", "rows[0].results"),
        ("row: bge-m3", "row: cls", "row 'cls' stands in the table twice"),
        ("row: bge-m3", "row: ../x", "'../x' cannot be a name"),
        ("results: results", "result: results", "rows[0].result"),
    ],
)
def test_mistakes_name_the_key_and_the_line(grid, tmp_path, old, new, told):
    grid.write_text(grid.read_text().replace(old, new))
    with pytest.raises(ConfigError) as error:
        make_plan(load_grid_file(str(grid)), tmp_path / "runs")
    assert told in str(error.value)
    assert "mine.yaml:14" in str(error.value)


def test_in_the_table_it_is_a_row_beside_ours(root, make_scores, results):
    training = root.train(1)
    scores = {"Mldr": {"main_score": 0.4, "ndcg_at_10": 0.4}, "NFCorpus": {"main_score": 0.2, "ndcg_at_10": 0.2}}
    suite = {"name": "both", "title": None, "tasks": [task.model_dump(mode="json") for task in SUITE.tasks]}
    record = root.grid("g", [("cls", 0, training, {"both": root.evaluate(11, training, scores, suite)})])
    found = read_results("bge-m3", results, [SUITE])
    record.elsewhere.append(found)
    record.save(root.path)
    table = grid_table(root.path, "g", tests=Comparing())
    ours, theirs = table.rows
    assert [cell.value for cell in ours.cells] == [40.0, 20.0]
    assert [(cell.value, cell.state, cell.rank) for cell in theirs.cells] == [(60.0, "", 1), (None, "–", 0)]
    assert theirs.cells[0].difference == 20.0
    spec = TableSpec.model_validate({"columns": [{"title": "All", "suite": "both"}], "rows": ["bge-m3", "cls"]})
    assert [row.cells[0].state for row in grid_table(root.path, "g", spec=spec).rows] == ["–", ""]
    for form in ("md", "html", "tex", "csv", "json"):
        text = render([table], form)
        assert "bge-m3" in text
        assert "60.0" in text
    said = "bge-m3: from results of MTEB made elsewhere (results/BAAI__bge-m3). They do not hold: NFCorpus."
    assert said in table.notes
    assert "results from elsewhere have no scores by query (bge-m3)" in render([table], "md")


def test_a_run_keeps_what_it_read_and_status_shows_it(grid, tmp_path, results):
    root = tmp_path / "runs"
    (tmp_path / "rows.jsonl").write_text('{"query": "a", "positive": "b"}\n')
    data = f"data={{train: [{tmp_path}/rows.jsonl], validation: null}}"
    loaded = load_grid_file(str(grid), (data, "model.path=nobody/nothing"))
    plan = make_plan(loaded, root)
    record = write_cells(plan, root, load_table(loaded, plan))
    (results / "5617a9f6" / "MultiLongDocRetrieval.json").unlink()
    table = grid_table(root, "mine")
    assert [row.name for row in table.rows] == ["cls", "bge-m3"]
    assert table.rows[1].cells[0].value == 60.0
    assert record.elsewhere[0].missing == {"both": ["NFCorpus"]}
    assert f"bge-m3: from elsewhere, 1 of 2 tasks, {results}" in lmk("status", grid, "--root", root)
    assert json.loads(lmk("status", grid, "--json", "--root", root))["elsewhere"][0]["row"] == "bge-m3"
    kept = json.loads((root / "grids" / "mine" / "grid.json").read_text())
    kept["elsewhere"][0]["scores"]["both"]["Mldr"]["main_score"] = "high"
    (root / "grids" / "mine" / "grid.json").write_text(json.dumps(kept))
    with pytest.raises(ValueError, match=r"elsewhere\[0\].scores.both.Mldr: key 'main_score' is text"):
        grid_table(root, "mine")
