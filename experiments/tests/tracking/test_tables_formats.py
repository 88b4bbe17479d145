"""One table in every format: the same numbers, the same states, and text of the users that stays text."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lmk_experiments.tables import FORMATS, Column, LabelColumn, Table, TableCell, TableRow, render
from lmk_experiments.tables.formats import chosen_format

HOSTILE = r'<script>alert("x")</script> & a|b_c^d~e $f$ {g} #h %i \j [k] "l" *m* ± – …'


def cell(value: float | None, **other) -> TableCell:
    return TableCell(value, seeds=1, planned=1, **other)


def plain(**changes) -> Table:
    columns = (
        Column(title="A", group="In", unit="NDCG@10", suite="s"),
        Column(title="B", group="Out", unit="F1", suite="t"),
        Column(title="Avg.", group="Out", mean_of=("A", "B")),
    )
    rows = (
        TableRow("cls", "cls", True, (cell(50.0, rank=2), cell(40.25), cell(45.125)), ("CLS", "-")),
        TableRow(
            "lmk-32",
            "lmk-32",
            False,
            (cell(61.26, rank=1, difference=11.26, published=60.2), cell(None, state="running 3/9"), cell(None)),
            ("LMK", "32"),
            rule=True,
        ),
        TableRow(
            "lmk-64",
            "lmk-64",
            False,
            (TableCell(49.0, 0.26, 2, 3, "planned", difference=-1.0), cell(0.0, rank=1), cell(None, state="planned")),
            ("LMK", "64"),
        ),
    )
    labels = (LabelColumn(title="Pool"), LabelColumn(title="Gran."))
    whole = {"differences": True, "notes": ("A note.",), "source": "the records", "labels": labels}
    return Table(**{"grid": "g", "title": "Title", "columns": columns, "rows": rows, **whole, **changes})


def hostile() -> Table:
    return Table(
        grid="g/1",
        title=HOSTILE,
        columns=(Column(title=HOSTILE, group=HOSTILE, unit=HOSTILE, suite="s"),),
        rows=(TableRow("a", HOSTILE, True, (cell(None, state=HOSTILE),), (HOSTILE,)),),
        differences=False,
        notes=(HOSTILE,),
        source="the records",
        labels=(LabelColumn(title=HOSTILE, group=HOSTILE),),
    )


class Grid(HTMLParser):
    """The cells of a page's tables, spans filled in, and every tag that occurs."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.lines: list[list[str]] = []
        self.held: dict[tuple[int, int], str] = {}
        self.at: tuple[int, int, int, int] | None = None
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.lines.append([])
        elif tag in ("td", "th"):
            spans = dict(attrs)
            line, column = len(self.lines) - 1, 0
            while (line, column) in self.held:
                column += 1
            self.at = (line, column, int(spans.get("rowspan", 1)), int(spans.get("colspan", 1)))
            self.text = ""
            for i in range(self.at[2]):
                for j in range(self.at[3]):
                    self.held[line + i, column + j] = ""

    def handle_data(self, data):
        self.text += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.held[self.at[:2]] = self.text

    def texts(self) -> list[list[str]]:
        lines = 1 + max(line for line, _ in self.held)
        return [[text for (line, _), text in sorted(self.held.items()) if line == number] for number in range(lines)]


def test_html_is_a_page_with_spans():
    page = render([plain()], "html")
    assert page.startswith("<!doctype html>\n")
    grid = Grid(page)
    assert grid.texts() == [
        ["", "", "In", "Out", ""],
        ["", "", "A", "B", "Avg."],
        ["Pool", "Gran.", "NDCG@10", "F1", ""],
        ["CLS", "-", "50.0", "40.2", "45.1"],
        ["LMK", "32", "61.3 (+11.3) [60.2, +1.1]", "running 3/9", "no score"],
        ["", "64", "49.0 ± 0.3 (-1.0), 2 of 3 seeds", "0.0", "planned"],
    ]
    assert '<th scope="colgroup" class="span" colspan="2">Out</th>' in page
    assert '<th scope="rowgroup" class="label" rowspan="2">LMK</th>' in page
    # Only what stands above the two label columns is set to the left.
    assert page.count('<th scope="col" class="label">') == 3 * 2
    assert "<b>61.3</b>" in page
    assert "<u>50.0</u>" in page
    # Nothing is fetched and nothing runs: the page stands alone.
    assert {"script", "link", "img", "iframe"}.isdisjoint(grid.tags)


def test_html_escapes_what_users_wrote():
    page = render([hostile()], "html")
    assert "script" not in Grid(page).tags
    assert page.count("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;") == 11
    assert Grid(page).texts()[-1] == [HOSTILE, HOSTILE]


def test_csv_has_every_digit_and_the_states():
    header, *lines = csv.reader(io.StringIO(render([plain()], "csv")))
    assert header == ["row", "Pool", "Gran."] + [
        f"{name}{extra}" for name in ("In/A", "Out/B", "Out/Avg.") for extra in ("", " ±", " difference")
    ]
    assert lines == [
        ["cls", "CLS", "-", "50.0", "", "", "40.25", "", "", "45.125", "", ""],
        ["lmk-32", "LMK", "32", "61.26", "", "11.26", "running 3/9", "", "", "no score", "", ""],
        ["lmk-64", "LMK", "64", "49.0", "0.26", "-1.0", "0.0", "", "", "planned", "", ""],
    ]
    header, first, second, _ = csv.reader(io.StringIO(render([plain(published="p.csv", differences=False)], "csv")))
    assert header[3:7] == ["In/A", "In/A ±", "In/A published", "In/A against"]
    assert first[3:7] == ["50.0", "", "", ""]
    assert second[3:7] == ["61.26", "", "60.2", repr(61.26 - 60.2)]


def test_several_tables_are_one_csv_named_by_their_suites():
    header, first, *_ = csv.reader(io.StringIO(render([plain(differences=False)] * 2, "csv")))
    assert header[:4] == ["row", "Pool", "Gran.", "s: In/A"]
    assert len(header) == len(first) == 3 + 2 * 6
    assert len(json.loads(render([plain()] * 2, "json"))["tables"]) == 2
    assert render([plain()] * 2, "html").count("<table>") == 2
    assert render([plain()] * 2, "tex").count(r"\begin{table}") == 2


def test_json_has_null_and_the_state_where_no_number_is():
    value = json.loads(render([plain(published="p.csv")], "json"))
    assert (value["schema"], value["grid"], len(value["tables"])) == (1, "g", 1)
    table = value["tables"][0]
    assert [column["name"] for column in table["columns"]] == ["In/A", "Out/B", "Out/Avg."]
    assert [column["metric"] for column in table["columns"]] == ["main_score", "main_score", None]
    row = table["rows"][1]
    assert (row["row"], row["labels"], row["baseline"]) == ("lmk-32", ["LMK", "32"], False)
    first, second, _ = row["cells"]
    assert (first["value"], first["rank"], first["difference"]) == (61.26, 1, 11.26)
    assert (first["published"], first["against"]) == (60.2, 61.26 - 60.2)
    assert (second["value"], second["state"]) == (None, "running 3/9")


def test_latex_has_booktabs_rules_and_spans():
    text = render([plain()], "tex")
    assert r"\begin{tabular}{@{}llrrr@{}}" in text
    assert r" &  & In & \multicolumn{2}{c}{Out} \\" in text.replace(r"\multicolumn{1}{c}{In}", "In")
    assert r"\cmidrule(lr){4-5}" in text
    assert r"CLS & - & \underline{50.0} & 40.2 & 45.1 \\" in text
    assert (
        r"LMK & 32 & \textbf{61.3} {\scriptsize ($+11.3$)} {\scriptsize {[}60.2, $+1.1${]}} & \emph{running 3/9}"
        in text
    )
    # The label is merged into the one above, and the row's rule stands above that one.
    assert "\\midrule\nLMK & 32" in text
    assert "\n & 64 & 49.0 $\\pm$ 0.3" in text


def test_markdown_leaves_merged_labels_out():
    lines = [line for line in render([plain()], "md").splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == ["", "", "In", "Out", ""]
    assert [cell.strip() for cell in lines[3].strip("|").split("|")] == ["*Pool*", "*Gran.*", "*NDCG@10*", "*F1*", ""]
    assert lines[1].count(":-") == 2
    assert lines[1].count("-:") == 3
    assert [cell.strip() for cell in lines[5].strip("|").split("|")[:3]] == [
        "LMK",
        "32",
        r"**61.3** (+11.3) \[60.2, +1.1\]",
    ]
    assert [cell.strip() for cell in lines[6].strip("|").split("|")[:2]] == ["", "64"]
    assert len({len(line) for line in lines}) == 1


PDFLATEX = shutil.which("pdflatex")


def compile_latex(text: str, folder: Path) -> Path:
    """The PDF of a document that reads ``text``; every warning of a broken reference or a missing glyph is an error."""
    (folder / "tables.tex").write_text(text, encoding="utf-8")
    (folder / "main.tex").write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs,graphicx}\n"
        "\\begin{document}\n\\input{tables}\n\\end{document}\n"
    )
    command = [str(PDFLATEX), "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Missing character" not in done.stdout
    return folder / "main.pdf"


@pytest.mark.skipif(PDFLATEX is None, reason="needs pdflatex (Debian: texlive-latex-base, texlive-latex-recommended)")
@pytest.mark.parametrize("tables", [[plain()], [hostile()], [plain(), hostile()]], ids=["plain", "hostile", "both"])
def test_latex_compiles(tables, tmp_path):
    assert compile_latex(render(tables, "tex"), tmp_path).stat().st_size > 1000


def test_the_format_is_that_of_the_file_unless_said():
    assert chosen_format(None, None) == "md"
    assert chosen_format(None, Path("t.TEX")) == "tex"
    assert chosen_format(None, Path("t.txt")) == "md"
    assert chosen_format("json", Path("t.tex")) == "json"
    with pytest.raises(ValueError, match="--format pdf: valid: md, tex, csv, html, json"):
        chosen_format("pdf", None)
    assert set(FORMATS) == {"md", "tex", "csv", "html", "json"}
