"""The section ``analyze:`` of a grid: mistakes, identities, jobs, and every kind as a cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmk_experiments.configs import ConfigError
from lmk_experiments.grids import Plan, count, load_grid_file, make_plan
from lmk_experiments.jobs.analyze import run_analysis
from lmk_experiments.jobs.fan import make_jobs, write_cells
from lmk_experiments.records import CellError, GridRecord, analysis_cell, load_grid, write_json
from lmk_experiments.records.figures import figures_text, has_table
from lmk_experiments.submit.states import grid_states

LONG = [" ".join(f"word {word} at {n}" for n in range(40)) for word in range(4)]
TRAIN = {
    "model": {"path": "org/model"},
    "data": {"train": ["data:msmarco-passage"]},
    "optim": {"steps": 10, "batch_size": 8, "learning_rate": 1e-5, "warmup_steps": 1},
}
ROWS = [
    {"row": "cls", "pooling": {"kind": "cls"}, **TRAIN},
    {"row": "lmk-{g}", "pooling": {"kind": "landmark", "granularity": "{g}"}, "for": {"g": [16, 32]}, **TRAIN},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in LONG))
    return tmp_path


def planned(folder: Path, *analyses: dict[str, Any], **keys: Any) -> Plan:
    value = {"grid": "g", **keys, "analyze": list(analyses)}
    (folder / "g.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
    return make_plan(load_grid_file(str(folder / "g.yaml")), folder / "runs")


def only(plan: Plan) -> str:
    (analysis,) = plan.analyses
    assert analysis.id is not None
    return analysis.id


ATTENTION = {"kind": "attention", "of": "*", "texts": "texts.jsonl"}
LENGTHS = {"kind": "lengths", "texts": "texts.jsonl", "tokenizer": "org/model"}


@pytest.mark.parametrize(
    ("entry", "key", "said"),
    [
        ({**ATTENTION, "kind": "atention"}, "analyze[0].kind", "did you mean 'attention'? Valid: attention, cost"),
        ({"texts": "texts.jsonl"}, "analyze[0].kind", "valid: attention, cost, geometry, landmarks, lengths, position"),
        ({**ATTENTION, "bin": 3}, "analyze[0].bin", "unknown key; did you mean 'bins'? Valid: kind, name, title, of"),
        ({**ATTENTION, "bins": "3"}, "analyze[0].bins", "a whole number is expected"),
        ({**ATTENTION, "max_length": [64], "bins": 65}, "analyze[0].bins", "valid: 1 to 64"),
        ({**ATTENTION, "of": "clss"}, "analyze[0].of[0]", "no training row is called 'clss'; did you mean 'cls'?"),
        ({**ATTENTION, "of": []}, "analyze[0].of", "a model is needed"),
        ({**ATTENTION, "texts": "none.jsonl"}, "analyze[0].texts", "no such file or folder"),
        (
            {**ATTENTION, "texts": {"suite": "mldr"}},
            "analyze[0].texts.suite",
            "no suite is called 'mldr'; did you mean",
        ),
        ({**ATTENTION, "texts": {"suite": "beir15"}}, "analyze[0].texts.task", "has several tasks; valid: TRECCOVID"),
        ({**ATTENTION, "name": "cls"}, "analyze[0].name", "a row of this grid is called 'cls'"),
        ({**ATTENTION, "kind": "landmarks"}, "analyze[0].of[0].pooling", "'cls' is read as 'cls'; only landmark"),
        ({**ATTENTION, "of": ["cls", "cls"]}, "analyze[0]", "'cls' is compared twice"),
        ({**LENGTHS, "tokenizer": None}, "analyze[0].tokenizer", "text is expected"),
        ({**LENGTHS, "texts": "data:msmarco"}, "analyze[0].texts", "msmarco"),
    ],
)
def test_a_mistake_is_told_by_file_line_and_key(folder: Path, entry: dict[str, Any], key: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(folder, entry, train=ROWS)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert said in problem.message
    assert problem.file.endswith("g.yaml")
    lines = (folder / "g.yaml").read_text().splitlines()
    assert problem.line is not None
    assert problem.line >= lines.index("analyze:") + 1


def test_a_grid_needs_rows_and_suites_or_analyses(folder: Path) -> None:
    (folder / "g.yaml").write_text("grid: g\n")
    with pytest.raises(ConfigError) as caught:
        load_grid_file(str(folder / "g.yaml"))
    assert [problem.key for problem in caught.value.problems] == ["train", "evaluate"]
    plan = planned(folder, LENGTHS)
    assert (plan.trainings, plan.rows) == ([], [])
    assert count([plan]).analyses == 1


def test_two_of_one_kind_need_names(folder: Path) -> None:
    with pytest.raises(ConfigError, match="two analyses are called 'lengths'"):
        planned(folder, LENGTHS, LENGTHS)
    plan = planned(folder, LENGTHS, {**LENGTHS, "name": "short", "limit": 2})
    assert [one.row for one in plan.analyses] == ["lengths", "short"]


@pytest.mark.parametrize(
    "change",
    [
        {"of": "cls"},
        {"of": [{"of": "*", "pooling": {"kind": "mean"}}]},
        {"bins": 16},
        {"documents": 3},
        {"seed": 1},
        {"seed": None},
        {"by": "fraction"},
        {"layer": 0},
        {"max_length": 4096},
        {"text_key": "body"},
        {"texts": {"suite": "mldr-en"}},
        {"models": [{"name": "base", "path": "org/model", "pooling": {"kind": "cls"}}]},
    ],
)
def test_what_an_analysis_is_told_is_its_identity(folder: Path, change: dict[str, Any]) -> None:
    plain = only(planned(folder, ATTENTION, train=ROWS))
    assert only(planned(folder, {**ATTENTION, **change}, train=ROWS)) != plain


def test_names_and_needs_are_not(folder: Path) -> None:
    plain = only(planned(folder, ATTENTION, train=ROWS))
    named = {**ATTENTION, "name": "figure", "title": "A figure", "of": ["cls", "lmk-*"]}
    assert only(planned(folder, named, train=ROWS, resources={"analyze": {"hours": 3}})) == plain
    (folder / "texts.jsonl").rename(folder / "moved.jsonl")
    assert only(planned(folder, {**ATTENTION, "texts": "moved.jsonl"}, train=ROWS)) == plain
    (folder / "moved.jsonl").write_text('{"text": "others"}\n')
    assert only(planned(folder, {**ATTENTION, "texts": "moved.jsonl"}, train=ROWS)) != plain
    changed = [{**ROWS[0], "optim": {**TRAIN["optim"], "steps": 11}}, ROWS[1]]
    (folder / "moved.jsonl").rename(folder / "texts.jsonl")
    assert only(planned(folder, ATTENTION, train=changed)) != only(planned(folder, ATTENTION, train=ROWS))


def test_a_job_waits_for_the_trainings_that_it_looks_at(folder: Path) -> None:
    plan = planned(folder, {**ATTENTION, "of": "lmk-*"}, LENGTHS, train=ROWS, seeds=[0, 1])
    root = folder / "runs"
    record = write_cells(plan, root, None)
    jobs = {job.name: job for job in make_jobs(record, root, plan)}
    assert jobs["analyze attention, seed 1"].after == ("train lmk-16, seed 1", "train lmk-32, seed 1")
    assert jobs["analyze lengths"].after == ()
    assert [job for job in jobs if job.startswith("analyze")] == [
        "analyze attention, seed 0",
        "analyze attention, seed 1",
        "analyze lengths",
    ]
    states = grid_states(load_grid(root, "g"), root)
    assert [one.kind for one in states.cells] == ["training"] * 6 + ["analysis"] * 3
    cell = analysis_cell(root, record.analyses[0].id)
    assert cell.waits_for() is not None
    assert cell.waits_for().folder.parent.name == "trainings"  # ty: ignore[possibly-missing-attribute]


def test_an_analysis_of_what_is_not_trained_fails_and_says_so(folder: Path) -> None:
    plan = planned(folder, {**ATTENTION, "of": "cls"}, train=ROWS)
    root = folder / "runs"
    record = write_cells(plan, root, None)
    cell = analysis_cell(root, record.analyses[0].id)
    with pytest.raises(CellError, match="is not done, so there is nothing to analyse yet"):
        run_analysis(str(cell.folder))
    assert cell.state().name == "failed"
    assert "nothing to analyse yet" in figures_text(root, load_grid(root, "g"))


def all_kinds(folder: Path, model: Path) -> list[dict[str, Any]]:
    place = folder / "docs"
    (place / "qrels").mkdir(parents=True)
    documents = [json.dumps({"_id": f"d{n}", "text": f"{text} w{n}"}) for n, text in enumerate(LONG)]
    queries = [json.dumps({"_id": f"q{n}", "text": f"w{n}", "metadata": {"at": n / 4}}) for n in range(4)]
    (place / "corpus.jsonl").write_text("\n".join(documents) + "\n")
    (place / "queries.jsonl").write_text("\n".join(queries) + "\n")
    judged = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(4))]
    (place / "qrels/test.tsv").write_text("\n".join(judged) + "\n")
    models = [{"name": "mine", "path": str(model)}]
    short = {"granularity": [4, 8], "max_length": 1024}  # texts that fit, so that landmarks add to them
    return [
        {"kind": "attention", "models": models, "texts": "docs", "max_length": [32, 64], "bins": 4},
        {"kind": "cost", "models": models, "texts": "texts.jsonl", **short, "rounds": 0},
        {"kind": "geometry", "models": models, "texts": "docs/corpus.jsonl"},
        {"kind": "landmarks", "models": models, "texts": "texts.jsonl", "min_chunks": 8, "k": 2},
        {"kind": "lengths", "texts": {"a": "texts.jsonl", "b": "docs"}, "tokenizer": str(model)},
        {"kind": "position", "models": models, "folder": "docs", "position_key": "at", "bins": 2, "max_length": 64},
    ]


def test_every_kind_is_a_cell(folder: Path, model_folder: Path) -> None:
    root = folder / "runs"
    plan = planned(folder, *all_kinds(folder, model_folder))
    record: GridRecord = write_cells(plan, root, None)
    assert not has_table(record)
    for one in record.analyses:
        cell = analysis_cell(root, one.id)
        run_analysis(str(cell.folder))
        done = cell.done()
        assert done is not None, one.kind
        assert {f"{one.kind}.{ending}" for ending in ("png", "svg", "csv", "json")} <= set(done["files"])
        assert done["metrics"]
        assert all(isinstance(value, float) for value in done["metrics"].values())
        before = (cell.folder / f"{one.kind}.png").stat().st_mtime_ns
        run_analysis(str(cell.folder))  # done is done
        assert (cell.folder / f"{one.kind}.png").stat().st_mtime_ns == before
    done = {one.kind: analysis_cell(root, one.id).done() or {} for one in record.analyses}
    assert done["landmarks"]["metrics"]["mine/chunk/chance"] == pytest.approx(2 / 8)
    assert done["lengths"]["metrics"]["a/texts"] == 4
    assert done["cost"]["metrics"]["mine/4/extra_tokens"] > done["cost"]["metrics"]["mine/8/extra_tokens"] > 0
    assert 0 <= done["position"]["metrics"]["mine/ndcg_at_10"] <= 1
    text = figures_text(root, record)
    assert text.count(".png") == 6
    # A picture that is gone is not named, and a DONE.json of another shape finishes nothing.
    first = analysis_cell(root, record.analyses[0].id)
    (first.folder / "attention.png").unlink()
    assert figures_text(root, record).count(".png") == 5
    write_json(first.folder / "DONE.json", {**done["attention"], "files": ["attention.png"]})
    assert first.done() is None
    assert "files" in first.state().reason
