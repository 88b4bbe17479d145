"""Header spans, merged labels, blocks that are compared apart, and one label turned into columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lmk_experiments.configs import ConfigError, Problem, validate
from lmk_experiments.configs.errors import dotted
from lmk_experiments.tables import Published, Table, TableSpec, TableSpecError, published_table
from lmk_experiments.tables.formats.layout import lay_out
from lmk_experiments.tables.formats.markdown import render_markdown

SUITES = ("short", "long")


def make(spec: dict, values: dict[str, tuple[float | None, ...]]) -> Table:
    """A table over suites `short` and `long` whose numbers are given by row."""
    held = {
        (row, suite, ""): {"main_score": value}
        for row, numbers in values.items()
        for suite, value in zip(SUITES, numbers, strict=True)
        if value is not None
    }
    return published_table(TableSpec.model_validate(spec), Published("published/t.csv", held, ()), "t", "T")


SHORT = {"title": "Short", "suite": "short"}
LONG = {"title": "Long", "suite": "long"}
LABELS = [
    {"title": "Model"},
    {"title": "Pool", "group": "Trained"},
    {"title": "Gran.", "group": "Trained"},
    {"title": "Pool", "group": "Read"},
    {"title": "Gran.", "group": "Read"},
]


def labels_of(rows: list[dict]) -> list[list[tuple[str, int, int]]]:
    spec = {"columns": [SHORT, LONG], "labels": LABELS, "rows": rows}
    table = make(spec, {row["row"]: (1.0, 2.0) for row in rows})
    return [[(span.text, span.columns, span.rows) for span in line] for line in lay_out(table).labels]


def test_labels_equal_to_those_above_are_merged_group_by_group():
    assert labels_of(
        [
            {"row": "a", "labels": ["M", "LMK", "32", "LMK", "32"]},
            {"row": "b", "labels": ["M", "LMK", "64", "LMK", "64"]},
            {"row": "c", "labels": ["M", "LMK", "var", "LMK", "32"], "rule": True},
            {"row": "d", "labels": ["M", "LMK", "var", "LMK", "64"]},
        ]
    ) == [
        [("M", 1, 2), ("LMK", 1, 2), ("32", 1, 1), ("LMK", 1, 2), ("32", 1, 1)],
        [("M", 1, 0), ("LMK", 1, 0), ("64", 1, 1), ("LMK", 1, 0), ("64", 1, 1)],
        # No label is merged across a rule.
        [("M", 1, 2), ("LMK", 1, 2), ("var", 1, 2), ("LMK", 1, 2), ("32", 1, 1)],
        [("M", 1, 0), ("LMK", 1, 0), ("var", 1, 0), ("LMK", 1, 0), ("64", 1, 1)],
    ]


def test_a_label_under_another_head_is_not_merged():
    # Both rows say "-", but of another pooling; and the second model starts everything anew.
    assert labels_of(
        [
            {"row": "a", "labels": ["M", "CLS", "-", "CLS", "-"]},
            {"row": "b", "labels": ["M", "Mean", "-", "Mean", "-"]},
            {"row": "c", "labels": ["N", "Mean", "-", "Mean", "-"]},
        ]
    ) == [
        [("M", 1, 2), ("CLS", 1, 1), ("-", 1, 1), ("CLS", 1, 1), ("-", 1, 1)],
        [("M", 1, 0), ("Mean", 1, 1), ("-", 1, 1), ("Mean", 1, 1), ("-", 1, 1)],
        [("N", 1, 1), ("Mean", 1, 1), ("-", 1, 1), ("Mean", 1, 1), ("-", 1, 1)],
    ]


def test_the_last_of_fewer_labels_spans_the_rest():
    assert labels_of(
        [
            {"row": "a", "labels": ["M", "LMK", "var", "LMK", "32"]},
            {"row": "b", "labels": ["M", "+ pre-training"]},
        ]
    ) == [
        [("M", 1, 2), ("LMK", 1, 1), ("var", 1, 1), ("LMK", 1, 1), ("32", 1, 1)],
        [("M", 1, 0), ("+ pre-training", 4, 1)],
    ]


def header_of(spec: dict, values: dict) -> list[list[tuple[str, int]]]:
    return [[(span.text, span.columns) for span in line] for line in lay_out(make(spec, values)).header]


def test_headers_span_their_groups_and_stand_on_the_rows():
    spec = {
        "columns": [
            {**SHORT, "group": "In", "detail": "(1)", "unit": "NDCG@10"},
            {**LONG, "group": "Out", "unit": "F1"},
            {"title": "Avg.", "group": "Out", "mean_of": ["Short", "Long"]},
        ],
        "labels": [{"title": "Pool", "group": "Read"}, {"title": "Gran.", "group": "Read"}],
        "rows": [{"row": "a", "labels": ["x", "y"]}],
    }
    assert header_of(spec, {"a": (1.0, 2.0)}) == [
        [("", 1), ("", 1), ("In", 1), ("Out", 2)],
        [("", 1), ("", 1), ("Short", 1), ("Long", 1), ("Avg.", 1)],
        [("Read", 2), ("(1)", 1), ("", 1), ("", 1)],
        [("Pool", 1), ("Gran.", 1), ("NDCG@10", 1), ("F1", 1), ("", 1)],
    ]


def test_equal_inner_headers_of_two_outer_groups_stay_apart():
    spec = {
        "columns": [{**SHORT, "group": ["x", "same"]}, {**LONG, "group": ["y", "same"]}],
        "rows": ["a"],
    }
    assert header_of(spec, {"a": (1.0, 2.0)})[:2] == [
        [("", 1), ("x", 1), ("y", 1)],
        [("", 1), ("same", 1), ("same", 1)],
    ]


PIVOT = {
    "columns": [{**SHORT, "group": "In", "detail": "(2)", "unit": "NDCG@10"}, {**LONG, "group": "Out", "unit": "F1"}],
    "labels": [{"title": "MSL"}, {"title": "Pool"}],
    "pivot": "Pool",
    "rows": [
        {"row": "cls-512", "labels": ["512", "CLS"], "baseline": True},
        {"row": "lmk-512", "labels": ["512", "LMK"]},
        {"row": "cls-1024", "labels": ["1024", "CLS"]},
        {"row": "lmk-1024", "labels": ["1024", "LMK"]},
    ],
    "differences": True,
}
VALUES = {"cls-512": (1.0, 5.0), "lmk-512": (2.0, 6.0), "cls-1024": (4.0, 7.0), "lmk-1024": (3.0, None)}


def test_a_pivot_makes_lines_of_rows_and_columns_of_a_label():
    table = make(PIVOT, VALUES)
    assert [(row.labels, row.name, [cell.value for cell in row.cells]) for row in table.rows] == [
        (("512",), "cls-512, lmk-512", [1.0, 2.0, 5.0, 6.0]),
        (("1024",), "cls-1024, lmk-1024", [4.0, 3.0, 7.0, None]),
    ]
    assert table.rows[1].cells[3].state == "not published"
    # Ranks and differences are those of the column before the pivot: 4.0 is best of all four, 3.0 second.
    assert [[cell.rank for cell in row.cells] for row in table.rows] == [[0, 0, 0, 2], [1, 2, 1, 0]]
    assert [[cell.difference for cell in row.cells] for row in table.rows] == [
        [None, 1.0, None, 1.0],
        [3.0, 2.0, 2.0, None],
    ]
    assert [column.name for column in table.columns] == [
        "In/Short (2)/CLS",
        "In/Short (2)/LMK",
        "Out/Long/CLS",
        "Out/Long/LMK",
    ]
    assert header_of(PIVOT, VALUES) == [
        [("", 1), ("In", 2), ("Out", 2)],
        [("", 1), ("Short (2)", 2), ("Long", 2)],
        [("", 1), ("CLS", 1), ("LMK", 1), ("CLS", 1), ("LMK", 1)],
        [("MSL", 1), ("NDCG@10", 2), ("F1", 2)],
    ]


def test_a_pivot_without_a_row_says_so():
    spec = {**PIVOT, "rows": PIVOT["rows"][:3]}
    assert [cell.state for cell in make(spec, VALUES).rows[1].cells] == ["", "no such row", "", "no such row"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"row": "a", "labels": ["512", "CLS"]}, {"row": "b", "labels": ["512", "CLS"]}], "rows 'a' and 'b' have the"),
        ([{"row": "a", "labels": ["512"]}], "row 'a' needs all 2 labels"),
    ],
)
def test_rows_that_no_pivot_can_place_are_named(rows, message):
    with pytest.raises(TableSpecError, match=message):
        make({**PIVOT, "rows": rows}, {})


def test_blocks_are_compared_apart():
    rows = [
        {"row": "a", "labels": ["M"], "baseline": True},
        {"row": "b", "labels": ["M"]},
        {"row": "c", "labels": ["N"], "baseline": True},
        {"row": "d", "labels": ["N"]},
    ]
    spec = {"columns": [SHORT, LONG], "labels": [{"title": "Model"}], "within": "Model", "rows": rows}
    table = make(spec, {"a": (1.0, 9.0), "b": (3.0, 8.0), "c": (5.0, 1.0), "d": (4.0, 2.0)})
    assert [[cell.rank for cell in row.cells] for row in table.rows] == [[2, 1], [1, 2], [1, 2], [2, 1]]
    assert [row.cells[0].difference for row in table.rows] == [None, 2.0, None, -1.0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rows": [{"row": "a"}]}, "rows: rows[0]: row 'a' has 0 labels, must have 1 to 2 labels"),
        ({"rows": [{"row": "a", "labels": ["x", "y", "z"]}]}, "has 3 labels, must have 1 to 2 labels"),
        ({"rows": None}, "labels: label columns need `rows`"),
        ({"labels": [], "pivot": None}, "rows: rows[0]: row 'cls-512' has 2 labels, must have no labels"),
        ({"pivot": "Pol"}, "pivot: 'Pol' is no label column; did you mean 'Pool'? Valid: MSL, Pool"),
        ({"within": "Model"}, "within: 'Model' is no label column; valid: MSL, Pool"),
        ({"labels": [{"title": "Pool"}, {"title": "Pool"}]}, "pivot: 'Pool' is the title of several label"),
        ({"labels": [{"titel": "MSL"}, {"title": "Pool"}]}, "labels[0].titel: unknown key; did you mean 'title'?"),
        ({"columns": [{**SHORT, "units": "F1"}]}, "columns[0].units: unknown key; did you mean 'unit'?"),
    ],
)
def test_mistakes_in_labels_are_named_with_their_place(changes, expected):
    with pytest.raises(ConfigError) as caught:
        validate(TableSpec, {**PIVOT, **changes}, lambda path, message: Problem("t.yaml", None, dotted(path), message))
    assert expected in str(caught.value)


def test_the_table_in_the_readme_is_valid():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(columns:.*?)```", readme, re.DOTALL)
    spec = validate(
        TableSpec, yaml.safe_load(block), lambda path, message: Problem("README", None, dotted(path), message)
    )
    assert [len(row.labels or ()) for row in spec.rows or ()] == [3, 3, 2]


def test_markdown_keeps_a_pivot_s_columns_under_their_title():
    # The first of them is no column alone, though nothing stands above the title that it carries for all.
    spec = {**PIVOT, "columns": [SHORT, {**LONG, "group": "Out"}]}
    values = {row["row"]: (1.0, 2.0) for row in PIVOT["rows"]}
    lines = render_markdown(make(spec, values)).splitlines()[2:6]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["", "", "", "Out", ""]
    assert cells[2] == ["", "*Short*", "", "*Long*", ""]
    assert cells[3] == ["*MSL*", "*CLS*", "*LMK*", "*CLS*", "*LMK*"]
