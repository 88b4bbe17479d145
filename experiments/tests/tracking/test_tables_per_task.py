"""A table for each suite: its tasks, and the groups (languages) of a task."""

from __future__ import annotations

import pytest

from lmk_experiments.records import load_grid
from lmk_experiments.tables import Published, TableSpec, TableSpecError, load_source, task_tables

MANY = {"name": "many", "title": "Many languages", "tasks": [{"name": "Docs", "mteb": "Docs"}]}
PARTS = {"main_score": 0.3, "f1": 0.9, "main_score[subset=de]": 0.2, "main_score[subset=en]": 0.4, "f1[subset=de]": 0.8}


@pytest.fixture
def suites(root, make_scores):
    """Two rows on a suite of two tasks and on a suite of one task with languages."""
    rows = []
    for number, row in enumerate(("cls", "mean"), start=1):
        training = root.train(number)
        ids = {"tiny": root.evaluate(10 + number, training, make_scores(number / 10, 0.5))}
        parts = {"Docs": {name: value / number for name, value in PARTS.items()}} if row == "cls" else None
        ids["many"] = root.evaluate(20 + number, training, parts, suite=MANY)
        rows.append((row, 0, training, ids))
    root.grid("small", rows)
    return root


SPEC = TableSpec.model_validate(
    {
        "title": "Title",
        "columns": [
            {"title": "Many", "suite": "many", "digits": 2},
            {"title": "Tiny", "suite": "tiny", "scale": 1},
            {"title": "Avg.", "mean_of": ["Many", "Tiny"]},
        ],
        "labels": [{"title": "Pool"}],
        "rows": [{"row": "cls", "labels": ["CLS"]}, {"row": "mean", "labels": ["Mean"]}],
        "notes": ["Only of the whole."],
    }
)


def tables(root, spec=SPEC, published=None):
    record = load_grid(root.path, "small")
    return task_tables(record, load_source(root.path, record), spec, published)


def test_suites_come_in_the_order_of_the_columns_with_their_tasks(suites):
    many, tiny = tables(suites)
    assert (many.title, tiny.title) == ("Title: Many languages", "Title: tiny")
    assert [column.name for column in tiny.columns] == ["Needle/Avg.", "Needle/quarter 1", "Words", "Avg."]
    assert [[cell.value for cell in row.cells] for row in tiny.rows] == [
        [0.1, 0.1 / 3, 0.5, 0.3],
        [0.2, 0.2 / 3, 0.5, 0.35],
    ]
    assert [row.labels for row in tiny.rows] == [("CLS",), ("Mean",)]
    assert many.notes == ()


def test_languages_are_columns_under_their_task(suites):
    many, _ = tables(suites)
    assert [(column.name, column.metric) for column in many.columns] == [
        ("Docs/Avg.", "main_score"),
        ("Docs/de", "main_score[subset=de]"),
        ("Docs/en", "main_score[subset=en]"),
    ]
    assert [cell.value for cell in many.rows[0].cells] == [30.0, 20.0, 40.0]
    assert {column.digits for column in many.columns} == {2}
    assert {cell.state for cell in many.rows[1].cells} == {"failed (stopped without a word: run it again to go on)"}


def test_the_metric_of_the_suites_column_is_used(suites):
    columns = [{"title": "Many", "suite": "many", "metric": "f1"}]
    [many] = tables(suites, SPEC.model_copy(update={"columns": TableSpec(columns=columns).columns}))
    assert [column.metric for column in many.columns] == ["f1", "f1[subset=de]"]


def test_groups_of_another_metric_are_not_shown_under_it(suites):
    columns = [{"title": "Tiny", "suite": "tiny", "metric": "ndcg_at_10"}]
    [tiny] = tables(suites, TableSpec.model_validate({"columns": columns}))
    assert [column.metric for column in tiny.columns] == [
        "ndcg_at_10",
        "ndcg_at_10[quarter=1]",
        "ndcg_at_10",
        "ndcg_at_10",
    ]
    done = suites.path / "evaluations" / f"{11:012x}" / "DONE.json"
    done.write_text(done.read_text().replace('"ndcg_at_10": ', '"f1": '))
    columns[0]["metric"] = "f1"
    [tiny] = tables(suites, TableSpec.model_validate({"columns": columns}))
    assert [column.name for column in tiny.columns] == ["Needle", "Words", "Avg."]


def test_without_a_spec_every_suite_has_its_table(suites):
    assert [table.title for table in tables(suites, None)] == ["Grid small: tiny", "Grid small: Many languages"]


def test_published_tasks_stand_beside_ours(suites):
    held = {("cls", "many", "Docs"): {"ndcg_at_10": 31.0, "ndcg_at_10[subset=de]": 25.0}}
    many, _ = tables(suites, published=Published("published/small.csv", held, ()))
    # Print says which metric it is; ours is the main one.
    assert [cell.published for cell in many.rows[0].cells][:3] == [31.0, 25.0, None]


def test_a_table_of_no_suite_has_no_tasks(suites):
    spec = TableSpec.model_construct(columns=(), labels=(), rows=None, title=None)
    with pytest.raises(TableSpecError, match="has no column of a suite"):
        tables(suites, spec)
