"""The report as a page: what it says of a grid that is half done, and that no text of it becomes markup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from report_root import HOSTILE, LENGTHS, NOTE, Page, ReportRoot, write_report_root
from typer.testing import CliRunner

from lmk_experiments.cli.main import app
from lmk_experiments.records import (
    GridRecord,
    RowRecord,
    TrainingRecord,
    load_grid,
    training_cell,
)
from lmk_experiments.records.attempts import gpu_hours, starts_of
from lmk_experiments.report import gather, render_page
from lmk_experiments.report.charts import nice_ticks, thinned
from lmk_experiments.tables import load_source


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> ReportRoot:
    return write_report_root(tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="module")
def page(root: ReportRoot) -> tuple[str, Page]:
    text = render_page(gather(load_grid(root.path, "study"), root.path))
    return text, Page(text)


@pytest.fixture
def report(root: ReportRoot) -> Callable[..., Result]:
    return lambda *words: CliRunner().invoke(app, ["report", *map(str, words)])


def test_no_text_becomes_markup(page: tuple[str, Page]) -> None:
    text, parsed = page
    assert not parsed.tags & {"script", "img", "b onerror", "iframe", "object", "embed", "base", "form"}
    assert "<script" not in text.lower()
    assert text.count("&lt;script&gt;alert(&quot;row&quot;)&lt;/script&gt;") > 10
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on")]


def test_it_asks_for_nothing(page: tuple[str, Page]) -> None:
    text, parsed = page
    addresses = {(tag, value) for tag, name, value in parsed.attributes if name in ("href", "src", "action", "data")}
    assert {value for tag, value in addresses if tag == "link"} == {"data:,"}
    links = {value for tag, value in addresses if tag == "a" and not value.startswith("#")}
    assert links
    assert all(re.fullmatch(r"https://mlflow\.test/#/runs/[0-9a-f]{32}", value) for value in links)
    assert "default-src 'none'" in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_table_has_its_marks_and_says_what_is_missing(page: tuple[str, Page]) -> None:
    text, parsed = page
    base, hostile = parsed.line("cls (baseline)"), parsed.line(HOSTILE)
    assert [cell for cell in base[1:] if "†" in cell] == []
    assert all("†" in cell and "±" in cell for cell in hostile[1:])
    assert [cell.strip() for cell in parsed.line("bge-m3")][2:] == ["–", "–", "–"]
    assert "differs from cls at p &lt; 0.05" in text
    assert "They do not hold: modules-1024, modules-2048." in text
    assert "4 of 16 cells are not done, so this report is not whole." in text
    assert f"training a-row-with-a-rather-long-name-1: failed ({NOTE})" in " ".join(parsed.texts["li"])


def test_every_chart_has_a_title_a_description_and_its_numbers(page: tuple[str, Page]) -> None:
    text, parsed = page
    svgs = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    # Columns; length and quarters for each task, values and differences; loss, rate and validation.
    assert len(svgs) == 4 + 2 * (1 + len(LENGTHS)) + 3
    ids = [value for tag, name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for svg in svgs:
        named = re.search(r'aria-labelledby="(\S+) (\S+)"', svg)
        assert named is not None
        assert set(named.groups()) <= set(ids)
        assert re.search(r"<desc[^>]*>[^<]+</desc>", svg)
    assert text.count("<figure>") == text.count("<summary>The numbers</summary>") == len(svgs)
    assert "NaN" not in "".join(svgs).replace("nan", "NaN")


def test_a_bar_is_as_long_as_its_value(page: tuple[str, Page]) -> None:
    text, parsed = page
    svg = re.findall(r'<svg [^>]*"bars0-t.*?</svg>', text, re.DOTALL)[0]
    widths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', svg)]
    values = [
        float(parsed.line(name)[1].partition(" ")[0])
        for name in ("cls (baseline)", HOSTILE, "a-row-with-a-rather-long-name-0", "bge-m3")
    ]
    assert [width / widths[0] for width in widths] == pytest.approx([value / values[0] for value in values], rel=0.01)


def test_lines_have_whiskers_of_the_tables_spread_and_of_the_paired_differences(
    root: ReportRoot, page: tuple[str, Page]
) -> None:
    text, parsed = page
    length, quarters = (profile for profile in gather(load_grid(root.path, "study"), root.path).profiles[:2])
    assert (length.axis, length.places) == ("length", ["512", "1,024", "2,048"])
    assert (quarters.axis, quarters.places) == ("quarter", ["1", "2", "3", "4"])
    svg = re.findall(r'<svg [^>]*"profile0-t.*?</svg>', text, re.DOTALL)[0]
    spread = [cell for line in length.lines for cell in line.cells if cell is not None and cell.deviation is not None]
    assert len(spread) > len(LENGTHS)
    ends = [
        (float(low), float(high)) for low, high in re.findall(r'class="bound [^"]*" d="M\S+ ([\d.]+)V([\d.]+)"', svg)
    ]
    middles = [float(y) for y in re.findall(r'<circle [^>]*cy="([\d.]+)"', svg)]
    assert len(ends) == len(spread)
    ticks = re.findall(r'y="([\d.]+)" text-anchor="end">([\d.]+)<', svg)
    pixels = (float(ticks[0][0]) - float(ticks[1][0])) / (float(ticks[1][1]) - float(ticks[0][1]))
    assert [low - high for low, high in ends] == pytest.approx([2 * one.deviation * pixels for one in spread], abs=0.3)
    assert all(any(abs((low + high) / 2 - y) < 0.2 for y in middles) for low, high in ends)
    difference = re.findall(r'<svg [^>]*"difference0-t.*?</svg>', text, re.DOTALL)[0]
    zero = re.findall(r'class="zero" [^>]*y1="([\d.]+)"', difference)
    assert zero == re.findall(r'y1="([\d.]+)" y2="\S+"/><text class="tick" [^>]*>0<', difference)
    assert 'class="zero"' not in svg
    hostile = next(line for line in length.lines if line.name == HOSTILE)
    cell = hostile.cells[0]
    assert cell is not None
    assert cell.comparison is not None
    assert cell.comparison.interval is not None
    low, high = cell.comparison.interval
    assert low < (cell.difference or 0.0) < high
    shown = [f"{cell.difference:,.4g}", f"{low:,.4g}", f"{high:,.4g}"]
    assert [HOSTILE, "512", *shown] in [line[:5] for line in parsed.lines]


def test_the_charts_as_files(root: ReportRoot, report: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "charts"
    done = report("study", "--root", root.path, "--out", tmp_path / "page.html", "--figures", folder)
    assert done.exit_code == 0, done.output
    files = sorted(folder.iterdir())
    page = (tmp_path / "page.html").read_text()
    assert f"{len(files)} charts written to {folder}" in done.output
    assert len(files) == page.count("<figure>")
    for file in files:
        tree = ElementTree.parse(file).getroot()
        assert tree.tag == "{http://www.w3.org/2000/svg}svg"
        assert not [one for one in tree.iter() if one.tag.rpartition("}")[2] in ("script", "image", "a", "b")]
    text = (folder / "long-b-documents-b-modules.svg").read_text()
    names = {one.text for one in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")}
    assert {"512", "1,024", "2,048", "cls", HOSTILE, "bge-m3"} <= names
    assert "prefers-color-scheme: dark" in text
    again = report("study", "--root", root.path, "--out", tmp_path / "page.html", "--figures", folder)
    assert again.exit_code == 0
    assert sorted(folder.iterdir()) == files
    refused = report("study", "--root", root.path, "--out", tmp_path / "page.html", "--figures", files[0])
    assert "this is a file; name a folder" in str(refused.exception)


def test_a_label_that_is_a_number_becomes_an_axis(root: ReportRoot) -> None:
    record = load_grid(root.path, "study")
    names = list(dict.fromkeys(row.row for row in record.rows))[:4]
    labels = [["1,024", "CLS"], ["1,024", "LMK"], ["64", "CLS"], ["64", "LMK"]]
    rows = [
        {"row": name, "labels": label, "baseline": label[1] == "CLS"} for name, label in zip(names, labels, strict=True)
    ]
    spec = {
        "columns": [{"title": "512", "suite": "long", "task": "modules-512", "metric": "ndcg_at_10"}],
        "labels": [{"title": "Trained at"}, {"title": "Pool"}],
        "pivot": "Pool",
        "within": "Trained at",
        "rows": rows,
    }
    first, *others = gather(replace(record, table=spec), root.path).profiles
    assert (first.title, first.axis, first.places) == ("512", "Trained at", ["64", "1,024"])
    assert [(line.name, line.baseline) for line in first.lines] == [("CLS", True), ("LMK", False)]
    source = load_source(root.path, record)
    for line in first.lines:
        for place, cell in zip(first.places, line.cells, strict=True):
            name = next(n for n, label in zip(names, labels, strict=True) if label == [place, line.name])
            seeds = [source.scores.get(row.evaluations["long"], {}) for row in record.rows if row.row == name]
            held = [100 * one["modules-512"]["ndcg_at_10"] for one in seeds if one]
            assert cell is not None
            assert (cell.value is None) == (not held)
            assert cell.value is None or cell.value == pytest.approx(sum(held) / len(held))
    assert all([line.name for line in one.lines] == names for one in others)


def test_the_curves_have_every_seed_and_their_mean(page: tuple[str, Page]) -> None:
    text, _ = page
    loss = next(svg for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL) if ">train/loss</title>" in svg)
    assert len(re.findall(r'class="line line\d faint"', loss)) == 8
    assert len(re.findall(r'class="line line\d"', loss)) == 4


def test_a_row_from_elsewhere_stands_in_the_charts_of_lengths(page: tuple[str, Page]) -> None:
    _, parsed = page
    assert ["bge-m3", "90", "–", "–"] in parsed.lines


def test_gpu_hours_are_those_of_the_records(root: ReportRoot, page: tuple[str, Page]) -> None:
    cell = training_cell(root.path, load_grid(root.path, "study").trainings[0].id)
    found = starts_of(cell)
    assert [(one.seconds(0.0), one.gpus, one.said) for one in found] == [(3600, 8, "pushed out"), (7200, 8, "done")]
    assert gpu_hours(found, 0.0) == 24.0
    _, parsed = page
    line = parsed.line("cls", "training", "0")
    assert line[3:6] == ["2", "3.00", "24.00"]
    # Eight trainings of three hours on eight GPUs; six evaluations of half an hour on one.
    assert parsed.line("all")[3:6] == [str(8 * 2 + 6), "27.00", "195.00"]


def test_where_it_ran_and_with_what(page: tuple[str, Page]) -> None:
    _, parsed = page
    starts = [line for line in parsed.lines if line[:2] == ["cls", "training"] and len(line) == 13]
    assert [line[4:8] for line in starts[:2]] == [["1", "node1", "1_0", "ann"], ["2", "node1", "1_0", "ann"]]
    assert [line[10] for line in starts[:2]] == ["pushed out", "done"]
    assert parsed.line("code", "commit 0123456789ab")[2] == "16 starts"
    assert parsed.line("device", "NVIDIA H100")[2] == "22 starts"


def test_a_grid_that_has_not_started_has_a_page(tmp_path: Path) -> None:
    record = GridRecord("new", "", [TrainingRecord("0" * 12, "cls", 0)], [])
    record = GridRecord(
        "new", "", record.trainings, load_rows("cls", "0" * 12, "1" * 12), {"columns": [{"title": "A", "suite": "s"}]}
    )
    record.save(tmp_path)
    text = render_page(gather(load_grid(tmp_path, "new"), tmp_path))
    parsed = Page(text)
    assert "2 of 2 cells are not done" in text
    assert "No evaluation is finished yet." in text
    assert "No training has reported a value yet." in text
    assert parsed.line("cls (baseline)") == ["cls (baseline)", "planned"]


def load_rows(row: str, training: str, evaluation: str) -> list:
    return [RowRecord(row, 0, training, {}, True, {"s": evaluation})]


def test_the_command_writes_it_where_it_is_asked_to(root: ReportRoot, report: Callable[..., Result], tmp_path) -> None:
    out = tmp_path / "deep" / "page.html"
    done = report("study", "--root", root.path, "--out", out)
    assert done.exit_code == 0, done.output
    assert f"written to {out}" in done.output
    assert "not done yet: training a-row-with-a-rather-long-name-1, and 3 more" in done.output
    assert "Nothing is estimated: the grid&#x27;s file cannot be planned" in out.read_text()
    assert [path.name for path in out.parent.iterdir()] == ["page.html"], "no half-written file stays"
    assert report("study", "--root", root.path).exit_code == 0
    assert (root.path / "grids" / "study" / "report.html").is_file()
    linked = report("study", "--root", root.path, "--out", out, "--mlflow-ui", "http://127.0.0.1:5000/")
    assert linked.exit_code == 0
    assert 'href="http://127.0.0.1:5000/#/runs/' in out.read_text()
    assert (
        report("study", "--root", root.path, "--out", out, "--mlflow-ui", "https://me:secret@team.test").exit_code == 0
    )
    assert 'href="https://team.test/#/runs/' in out.read_text()
    assert "secret" not in out.read_text(), "the page may be mailed"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["../study"], "no grid '../study' was run"),
        (["nothing"], "it holds: study"),
        (["study", "--mlflow-ui", "javascript:alert(1)"], "--mlflow-ui javascript:alert(1): an address is needed"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(root: ReportRoot, report, tmp_path, words, told) -> None:
    out = tmp_path / "page.html"
    done = report(*words, "--root", root.path, "--out", out)
    assert isinstance(done.exception, ValueError)
    assert told in str(done.exception)
    assert not out.exists()


def test_damaged_records_cost_their_own_cell_only(tmp_path: Path) -> None:
    root = write_report_root(tmp_path, rows=3)
    record = load_grid(root.path, "study")
    folder = training_cell(root.path, record.trainings[0].id).folder
    (folder / "cell.json").write_text("{")
    (folder / "mlflow.json").write_text("[]")
    (folder / "metrics.jsonl").write_text('{"step": "x"}\n{"step": 1, "time": 1.0, "values": {"train/loss": "high"}}\n')
    with (folder / "events.jsonl").open("a") as file:
        file.write("not json\n")
    parsed = Page(render_page(gather(record, root.path)))
    assert parsed.line("cls (baseline)")[1] != ""


def test_an_estimate_stands_beside_what_was_used(tmp_path: Path, report: Callable[..., Result]) -> None:
    """A grid whose model file says how large it is: planned, recorded, and a training of it done."""
    (tmp_path / "rows.jsonl").write_text('{"query": "a", "positive": "b"}\n')
    (tmp_path / "mine.yaml").write_text(
        """
grid: mine
base: [presets/quickstart, ./base.yaml]
train: [{row: cls, pooling: {kind: cls}, baseline: true}]
evaluate:
  max_length: 64
  suites: [nfcorpus-only]
""".replace("[nfcorpus-only]", "[{name: nf, tasks: [{name: NFCorpus, mteb: NFCorpus, split: test}]}]")
    )
    (tmp_path / "base.yaml").write_text(
        json.dumps(
            {
                "model": {"path": "nobody/nothing"},
                "size": {"parameters": 110_000_000, "embedding_parameters": 39_000_000, "dim": 768},
                "data": {"train": [str(tmp_path / "rows.jsonl")], "validation": None},
            }
        )
    )
    from lmk_experiments.grids import load_grid_file, make_plan
    from lmk_experiments.jobs.fan import write_cells

    plan = make_plan(load_grid_file(str(tmp_path / "mine.yaml")), tmp_path / "runs")
    write_cells(plan, tmp_path / "runs", None)
    done = report(tmp_path / "mine.yaml", "--root", tmp_path / "runs", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    parsed = Page((tmp_path / "page.html").read_text())
    assert float(parsed.line("cls", "training")[-1]) > 0
    assert "FLOP a parameter and token" in (tmp_path / "page.html").read_text()


def test_ticks_are_round_and_few() -> None:
    assert nice_ticks(0.013, 0.97, 5) == [0.0, 0.2, 0.4, 0.6, 0.8]
    assert nice_ticks(-3, 1200, 4) == [-500.0, 0.0, 500.0, 1000.0]
    assert nice_ticks(2.0, 2.0, 4) == [2.0]


def test_long_curves_keep_their_ends_and_their_mean() -> None:
    points = [(float(step), float(step % 7)) for step in range(5_000)]
    shown = thinned(points)
    assert len(shown) <= 200
    assert (shown[0], shown[-1]) == (points[0], points[-1])
    assert sum(y for _, y in shown) / len(shown) == pytest.approx(3.0, abs=0.1)
