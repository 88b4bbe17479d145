from __future__ import annotations

import pytest

from lmk_experiments.configs import ConfigError, Problem, validate
from lmk_experiments.configs.errors import dotted
from lmk_experiments.tables import Column, Table, TableCell, TableRow, TableSpec, render_markdown
from lmk_experiments.tables.formats.markdown import escape


def column(title: str, **other) -> Column:
    return Column(title=title, suite="s", **other)


def cell(value: float | None, **other) -> TableCell:
    return TableCell(value, seeds=1, planned=1, **other)


def table(columns, rows, *, differences=False, notes=()) -> Table:
    return Table("g", "Title", tuple(columns), tuple(rows), differences, tuple(notes), "the records")


def test_a_plain_table():
    shown = render_markdown(
        table(
            [column("NDCG"), column("P@1", digits=2)],
            [
                TableRow("cls", "cls", True, (cell(50.0, rank=2), cell(-0.001))),
                TableRow("lmk", "lmk-32", False, (cell(61.25, rank=1, difference=11.25), cell(None, state="planned"))),
            ],
            differences=True,
            notes=["a < b", "second"],
        )
    )
    assert shown == (
        "### Title\n"
        "\n"
        "|                |             NDCG |       P@1 |\n"
        "| :------------- | ---------------: | --------: |\n"
        "| cls (baseline) |  <ins>50.0</ins> |      0.00 |\n"
        "| lmk-32         | **61.2** (+11.2) | *planned* |\n"
        "\n"
        "**Bold**: best of its column; <ins>underlined</ins>: second best. In parentheses: difference to cls. "
        "Scores are multiplied by 100.\n"
        "\n"
        "- a &lt; b\n"
        "- second\n"
        "\n"
        "Grid g; numbers from the records.\n"
    )


def test_groups_stand_above_the_first_of_their_columns():
    columns = [column("A", group="one"), column("B", group="one"), column("C"), column("D", group="two", scale=1)]
    lines = render_markdown(table(columns, [TableRow("r", "r", False, (cell(1.0),) * 4)])).splitlines()
    assert lines[2:6] == [
        "|     | one |     |   C | two |",
        "| :-- | --: | --: | --: | --: |",
        "|     | *A* | *B* |     | *D* |",
        "| r   | 1.0 | 1.0 | 1.0 | 1.0 |",
    ]
    assert "multiplied" not in "\n".join(lines)


def test_deviation_is_explained():
    one = TableCell(60.0, deviation=0.26, seeds=3, planned=3, rank=1)
    shown = render_markdown(table([column("A")], [TableRow("r", "r", False, (one,))]))
    assert "**60.0 ± 0.3**" in shown
    assert "±: sample standard deviation over seeds." in shown


def test_wide_letters_are_aligned():
    rows = [TableRow("r", label, False, (cell(1.0),)) for label in ("日本語", "e\u0301a", "plain")]
    lines = render_markdown(table([column("A")], rows)).splitlines()[4:7]
    assert lines == ["| 日本語 | 1.0 |", "| e\u0301a     | 1.0 |", "| plain  | 1.0 |"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("mean@64 lmk_32 (x)", "mean@64 lmk_32 (x)"),
        ("a|b", "a\\|b"),
        ("<script>&</script>", "&lt;script&gt;&amp;&lt;/script&gt;"),
        ("*b* _i_ `c` ~~s~~ $m$", "\\*b\\* \\_i\\_ \\`c\\` \\~\\~s\\~\\~ \\$m\\$"),
        ("[x](y)", "\\[x\\](y)"),
        ("two\nlines", "two lines"),
        ("back\\slash", "back\\\\slash"),
    ],
)
def test_text_of_the_users_stays_text(text, escaped):
    assert escape(text) == escaped
    shown = render_markdown(table([column(text or "t")], [TableRow("r", text, False, (cell(1.0),))]))
    assert len({line.replace("\\|", "").count("|") for line in shown.splitlines() if line.startswith("|")}) == 1


SCORE = {"title": "A", "suite": "s"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"columns": [{**SCORE, "metrik": "x"}]},
            "columns[0].metrik: unknown key; did you mean 'metric'? Valid: title",
        ),
        ({"columns": [SCORE], "row": []}, "row: unknown key; did you mean 'rows'? Valid: title, columns, rows"),
        ({}, "columns: this key is required"),
        ({"columns": []}, "columns: "),
        ({"columns": [{"title": "A"}]}, "columns[0]: column 'A' needs `suite` or `mean_of`"),
        ({"columns": [SCORE, {**SCORE, "title": "B", "mean_of": ["A"]}]}, "columns[1]: column 'B' needs `suite` or"),
        ({"columns": [SCORE, {"title": "B", "mean_of": ["A"], "scale": 1}]}, "columns[1].scale: column 'B' is a mean"),
        (
            {"columns": [SCORE, {"title": "B", "mean_of": []}]},
            "columns[1].mean_of: column 'B' is the mean of no column",
        ),
        (
            {"columns": [SCORE, {"title": "B", "mean_of": ["a"]}]},
            "columns: mean_of: 'a' is no column of scores; val",
        ),
        (
            {"columns": [SCORE, {"title": "B", "mean_of": ["B"]}]},
            "columns: mean_of: 'B' is no column of scores; val",
        ),
        (
            {"columns": [{**SCORE, "group": g} for g in "xy"] + [{"title": "B", "mean_of": ["A"]}]},
            "columns: mean_of: 'A' is the title of several columns; valid: x/A, y/A",
        ),
        ({"columns": [SCORE, SCORE]}, "columns: two columns are called 'A'"),
        ({"columns": [{**SCORE, "task": []}]}, "columns[0].task: column 'A' lists no task"),
        (
            {"columns": [{**SCORE, "best": "most"}]},
            "columns[0].best: input should be 'max', 'min' or 'none', found",
        ),
        ({"columns": [{**SCORE, "digits": -1}]}, "columns[0].digits: "),
        ({"columns": [SCORE], "rows": ["a", {"row": "a"}]}, "rows: row 'a' is listed twice"),
        ({"columns": [SCORE], "rows": [{"title": "x"}]}, "rows[0].row: this key is required"),
    ],
)
def test_mistakes_in_a_spec_are_named_with_their_place(value, expected):
    with pytest.raises(ConfigError) as caught:
        validate(TableSpec, value, lambda path, message: Problem("t.yaml", None, dotted(path), message))
    assert f"t.yaml: {expected}" in str(caught.value)


def test_a_title_may_be_averaged_by_its_group():
    columns = [{**SCORE, "group": "x"}, {**SCORE, "group": "y"}, {"title": "B", "mean_of": ["y/A"]}]
    assert TableSpec.model_validate({"columns": columns}).averaged("y/A") == 1
