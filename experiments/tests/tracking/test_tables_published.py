"""Published numbers: the file, beside ours, and alone; and the paper's own tables, where its numbers ship."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lmk_experiments.configs import load_document, shipped_folder, shipped_names, validate
from lmk_experiments.tables import (
    Column,
    TableSpec,
    grid_table,
    load_published,
    load_source,
    published_table,
    published_task_tables,
    render,
    task_tables,
)
from lmk_experiments.tables.load import load_spec_of

HEADER = "row,suite,task,metric,value,source\n"
SHIPPED = sorted(path.stem for path in shipped_folder("published").glob("*.csv"))
PAPER_TABLES = [f"table{number}" for number in range(1, 7)]


def write(folder: Path, text: str, name: str = "small") -> Path:
    (folder / f"{name}.csv").write_text(HEADER + text, encoding="utf-8")
    return folder


def spec(*columns: dict, **other) -> TableSpec:
    return TableSpec.model_validate({"columns": list(columns), **other})


TINY = {"title": "Tiny", "suite": "tiny"}
NEEDLE = {"title": "Needle", "suite": "tiny", "task": "Needle"}


def test_a_number_is_found_by_row_suite_task_and_metric(tmp_path):
    text = 'cls,tiny,,ndcg_at_10,39.8,"Us, Table 1"\ncls,tiny,Needle,ndcg_at_10,12.5,B\ncls,tiny,Needle,f1,50,B\n'
    found = load_published("small", write(tmp_path, text))
    assert found.value("cls", Column(**TINY)) == 39.8
    assert found.value("cls", Column(**TINY, metric="ndcg_at_10", scale=1)) == pytest.approx(0.398)
    assert found.value("cls", Column(**TINY, metric="f1")) is None
    # Two metrics: none of them is "the main one"; by name each is found.
    assert found.value("cls", Column(**NEEDLE)) is None
    assert found.value("cls", Column(**NEEDLE, metric="f1")) == 50
    assert found.value("mean", Column(**TINY)) is None
    assert found.sources == ("Us, Table 1", "B")


def test_a_suite_without_its_own_figure_is_the_mean_of_its_tasks(tmp_path):
    text = "cls,tiny,a,main_score,10,S\ncls,tiny,b,main_score,20,S\nmean,tiny,a,main_score,10,S\n"
    found = load_published("small", write(tmp_path, text))
    assert found.value("cls", Column(**TINY)) == 15
    # One of two tasks is no mean of both.
    assert found.value("mean", Column(**TINY)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,suite,value\ncls,tiny,3\n", r"small.csv:1: the header is 'row,suite,value', must be 'row,suite,task,"),
        (HEADER + "cls,tiny,,f1,high,S\n", r"small.csv:2: value is 'high', must be a number"),
        (HEADER + "cls,tiny,,f1,nan,S\n", r"small.csv:2: value is 'nan', must be a number"),
        (HEADER + "cls,tiny,,f1,1,S\ncls,tiny,,f1,2,S\n", r"small.csv:3: a second value for cls, tiny, f1"),
        (HEADER + "cls,,,f1,1,S\n", r"small.csv:2: suite is empty"),
        (HEADER + "cls,tiny,f1,1,S\n", r"small.csv:2: this line has not 6 columns: row, suite, task, metric, value"),
        (HEADER + "cls,tiny,,f1,1,S,more\n", r"small.csv:2: this line has not 6 columns"),
    ],
)
def test_a_wrong_file_is_named_with_line_and_column(tmp_path, text, message):
    (tmp_path / "small.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_published("small", tmp_path)


def test_a_grid_without_a_file_is_told_which_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"no published numbers for grid 'big': .*published: small"):
        load_published("big", write(tmp_path, ""))


def test_published_values_stand_beside_ours_with_the_difference(two_rows, tmp_path):
    text = "cls,tiny,Needle,main_score,29.5,Print\ncls,tiny,Words,main_score,50.25,Print\n"
    columns = (NEEDLE, {**NEEDLE, "title": "Words", "task": "Words"}, {"title": "Avg.", "mean_of": ["Needle", "Words"]})
    published = load_published("small", write(tmp_path, text))
    table = grid_table(two_rows.path, "small", spec=spec(*columns), published=published)
    cells = table.rows[0].cells
    assert [cell.published for cell in cells] == [29.5, 50.25, (29.5 + 50.25) / 2]
    assert [cell.against for cell in cells] == pytest.approx([0.5, -0.25, 0.125])
    assert {cell.published for row in table.rows[1:] for cell in row.cells} == {None}
    shown = render([table], "md")
    assert "30.0 \\[29.5, +0.5\\]" in shown
    assert "In brackets: the published value, and ours minus it." in shown
    assert "Published numbers from published/small.csv (Print)." in shown


def test_a_missing_cell_of_ours_still_shows_what_was_published(root, make_scores, tmp_path):
    training = root.train(1)
    root.grid("small", [("cls", 0, training, {"tiny": root.evaluate(11, training, None)})])
    published = load_published("small", write(tmp_path, "cls,tiny,,main_score,29.5,Print\n"))
    table = grid_table(root.path, "small", spec=spec(TINY), published=published)
    assert "*failed (stopped without a word: run it again to go on)* \\[29.5\\]" in render([table], "md")
    assert ">[29.5]</small>" in render([table], "html")


def test_an_empty_file_is_shown_as_nothing_published(two_rows, tmp_path):
    published = load_published("small", write(tmp_path, ""))
    beside = render([grid_table(two_rows.path, "small", spec=spec(NEEDLE), published=published)], "md")
    assert "Published numbers from published/small.csv (nothing was published)." in beside
    assert "\\[" not in beside
    alone = published_table(spec(NEEDLE, rows=["cls", "mean"]), published, "small", "T")
    assert [[cell.state for cell in row.cells] for row in alone.rows] == [["not published"]] * 2
    assert "numbers from published/small.csv (nothing was published)" in render([alone], "md")


def test_published_numbers_by_task_are_tables_of_their_suites(tmp_path):
    text = (
        "cls,tiny,a,main_score,10,S\ncls,tiny,b,main_score,20,S\n"
        "cls,tiny,b,main_score[subset=de],30,S\ncls,tiny,b,main_score[subset=en],40,S\n"
    )
    published = load_published("small", write(tmp_path, text))
    [table] = published_task_tables(spec(TINY, rows=["cls"]), published, "small", "T")
    assert table.title == "T: tiny"
    assert [column.name for column in table.columns] == ["a", "b/Avg.", "b/de", "b/en", "Avg."]
    assert [cell.value for cell in table.rows[0].cells] == [10, 20, 30, 40, 15]
    with pytest.raises(ValueError, match="holds no numbers by task"):
        published_task_tables(spec({"title": "x", "suite": "other"}), published, "small", "T")


@pytest.mark.parametrize("name", shipped_names("tables"))
def test_every_shipped_table_is_valid_and_has_a_layout(name):
    document = load_document(shipped_folder("tables") / f"{name}.yaml")
    assert validate(TableSpec, document.value, document.problem).columns


def test_published_numbers_ship_where_their_folder_has_files():
    folder = shipped_folder("published")
    if not folder.is_dir() or not any(folder.iterdir()):
        pytest.skip(f"no published numbers here: {folder} has no files")
    assert SHIPPED


def printed(name: str) -> tuple[TableSpec, dict]:
    """The spec of a shipped table and its published numbers, rendered as JSON."""
    layout, title = load_spec_of(name)
    table = published_table(layout, load_published(name), name, title)
    return layout, json.loads(render([table], "json"))["tables"][0]


@pytest.mark.parametrize("name", [name for name in SHIPPED if name in PAPER_TABLES])
def test_every_published_number_is_printed(name):
    layout, table = printed(name)
    shown = [f"{cell['value']:.1f}" for row in table["rows"] for cell in row["cells"]]
    with (shipped_folder("published") / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    suites = {column.suite or column.published for column in layout.columns}
    assert {line["suite"] for line in lines} <= suites | {None}
    assert {line["row"] for line in lines} == {row.row for row in layout.rows or ()}
    assert sorted(shown) == sorted(f"{float(line['value']):.1f}" for line in lines)


@pytest.mark.parametrize("form", ["md", "tex", "csv", "html"])
@pytest.mark.parametrize("name", [name for name in SHIPPED if name in PAPER_TABLES])
def test_every_format_prints_the_numbers_in_the_same_order(name, form):
    layout, title = load_spec_of(name)
    table = published_table(layout, load_published(name), name, title)
    expected = [f"{cell.value:.1f}" for row in table.rows for cell in row.cells]
    text = render([table], form)
    if form == "csv":
        rows = [line[-len(table.columns) :] for line in csv.reader(text.splitlines()[1:])]
        assert [f"{float(value):.1f}" for row in rows for value in row] == expected
        return
    start = {"md": "| :-", "tex": r"\toprule", "html": "<tbody>"}[form]
    body = text[text.index(start) :]
    assert re.findall(r"(?<![\w.])\d+\.\d(?![\d.])", body)[: len(expected)] == expected


def paper_numbers(text: str, number: int, columns: int) -> list[list[str]]:
    """The last ``columns`` numbers of every line of the paper's Table ``number``, whose spans are not to be trusted."""
    lines = text[text.index(f"\nTable {number}: ") :].split("\n")[2:]
    first = next(index for index, line in enumerate(lines) if line.startswith("|"))
    found = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        numbers = [cell for cell in cells if re.fullmatch(r"\d+\.\d", cell)]
        if numbers:
            assert len(numbers) == columns, line
            found.append(numbers)
    return found


@pytest.mark.parametrize("name", [name for name in SHIPPED if name in PAPER_TABLES])
def test_the_tables_are_the_papers_line_by_line(name, shared):
    [paper] = (shared / "paper").glob("*.md")
    _, table = printed(name)
    columns = len(table["columns"])
    expected = paper_numbers(paper.read_text(encoding="utf-8"), int(name.removeprefix("table")), columns)
    assert [[f"{cell['value']:.1f}" for cell in row["cells"]] for row in table["rows"]] == expected


def test_the_command_prints_published_numbers_without_a_run(tmp_path):
    if "table1" not in SHIPPED:
        pytest.skip("the numbers of table1 do not ship")
    lmk = [sys.executable, "-c", "from lmk_experiments.cli.main import main; main()"]
    for out in ("t.md", "t.tex", "t.csv", "t.html", "t.json"):
        done = subprocess.run([*lmk, "table", "table1", "--published", "--out", out], cwd=tmp_path, check=False)
        assert done.returncode == 0
        assert "48.1" in (tmp_path / out).read_text()
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="needs pdflatex (Debian: texlive-latex-base, texlive-latex-recommended)"
)
def test_all_published_tables_compile_in_one_document(tmp_path):
    if not SHIPPED:
        pytest.skip("no published numbers ship")
    names = [name for name in SHIPPED if name in PAPER_TABLES]
    for name in names:
        layout, title = load_spec_of(name)
        text = render([published_table(layout, load_published(name), name, title)], "tex")
        (tmp_path / f"{name}.tex").write_text(text, encoding="utf-8")
    inputs = "\n".join(rf"\input{{{name}}}" for name in names)
    (tmp_path / "main.tex").write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs,graphicx}\n"
        f"\\begin{{document}}\n{inputs}\n\\end{{document}}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Overfull \\hbox" not in done.stdout
    if folder := os.environ.get("LMK_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "main.pdf", Path(folder) / "tables.pdf")


@pytest.mark.parametrize("name", PAPER_TABLES)
def test_every_table_of_the_paper_fills_from_records(root, name):
    """All rows and suites of the layout in one grid: numbers from one row, states from the others, nothing is zero."""
    layout, _ = load_spec_of(name)
    suites = list(dict.fromkeys(column.suite for column in layout.columns if column.suite))
    assert layout.rows is not None
    rows = []
    for number, row in enumerate(layout.rows, start=1):
        training = root.train(number, done=number == 1)
        ids = {suite: f"{1000 * number + index:012x}" for index, suite in enumerate(suites)}
        for index, suite in enumerate(suites if number == 1 else ()):
            scores = {"T": {"main_score": 0.5}, "U": {"main_score": 0.7}}
            described = {"name": suite, "title": None, "tasks": [{"name": "T"}, {"name": "U"}]}
            assert root.evaluate(1000 * number + index, training, scores, suite=described) == ids[suite]
        rows.append((row.row, 0, training, ids))
    record = root.grid(name, rows, table=layout.model_dump(mode="json", exclude_unset=True))
    table = grid_table(root.path, name)
    cells = [cell for row in table.rows for cell in row.cells]
    filled = [cell.value for cell in cells if cell.value is not None]
    assert filled == pytest.approx([60.0] * len(layout.columns))
    assert len(cells) == len(layout.columns) * len(layout.rows)
    missing = {cell.state for cell in cells if cell.value is None}
    assert missing == {"training failed (stopped without a word: run it again to go on)"}
    assert len(task_tables(record, load_source(root.path, record))) == len(suites)
