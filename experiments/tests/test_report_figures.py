"""A picture in the report: what draws is kept, what could do more is not, and two figures do not share an id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lmk_experiments.records import AnalysisRecord, GridRecord, analysis_cell, load_grid
from lmk_experiments.report import gather, render_page
from lmk_experiments.report.captions import caption
from lmk_experiments.report.inline import UnsafeFigure, inline_svg

DRAWING = b"""<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 241.2 180"
  width="241pt" onload="alert(1)">
 <metadata>who</metadata>
 <defs><style type="text/css">*{stroke-linejoin: round}</style><path id="m1" d="M 0 0 L 1 1"/>
  <clipPath id="p1"><rect x="0" y="0" width="9" height="9"/></clipPath></defs>
 <script>alert(2)</script><image xlink:href="https://evil.test/x.png"/><foreignObject><p>hi</p></foreignObject>
 <g id="axes_1" class="grid" onclick="alert(3)" style="fill: #0072B2; stroke: url(https://evil.test); opacity: 0.2">
  <path d="M 1 2 L 3 4 z" clip-path="url(#p1)" style="fill: url(#h1); behavior: url(x)"/>
  <use xlink:href="#m1" x="1" y="2"/><use xlink:href="https://evil.test/#m1"/>
  <a xlink:href="javascript:alert(4)"><path d="M 5 6"/></a>
  <text x="1">&lt;b&gt;</text>
 </g>
</svg>"""


def test_what_draws_is_kept_and_nothing_else() -> None:
    html = inline_svg(DRAWING, "f0", "A <title>", "said")
    assert not re.search(r"script|image|foreign|style type|evil|alert|javascript|class=\"grid\"|metadata", html)
    assert 'viewBox="0 0 241.2 180"' in html
    assert '<g id="f0-axes_1" style="fill:#0072B2;opacity:0.2">' in html
    assert 'clip-path="url(#f0-p1)" style="fill:url(#f0-h1)"' in html
    assert '<use href="#f0-m1" x="1" y="2">' in html
    assert "A &lt;title&gt;" in html
    assert "&lt;b&gt;" in html


def test_two_figures_share_no_id() -> None:
    page = inline_svg(DRAWING, "f0", "a", "b") + inline_svg(DRAWING, "f1", "a", "b")
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)) == 2 * 5
    for target in re.findall(r"#(f\d-[\w-]+)", page):
        assert target in ids or target.endswith("h1")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"not xml", "is no SVG"),
        (b"<html/>", "is no SVG"),
        (b'<!DOCTYPE s [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>', "entities"),
    ],
)
def test_what_is_no_picture_is_refused(source: bytes, said: str) -> None:
    with pytest.raises(UnsafeFigure, match=said):
        inline_svg(source, "f", "t", "d")


def test_a_caption_says_what_the_numbers_say() -> None:
    options = {"by": "tokens", "layer": -1, "documents": 100}
    lines = [
        {"series": name, "max_length": length, "share_of_first_tenth": share, "mean_position": 0.4}
        for name, length, share in (("cls", 512, 0.2), ("cls", 8192, 0.55), ("lmk", 8192, 0.101))
    ]
    said = caption("attention", options, lines)
    assert "At 8,192 tokens" in said
    assert said.endswith("cls 55.0%, lmk 10.1%.")
    assert "the position, in tokens" in said
    assert caption("attention", {}, lines) == ""
    assert caption("another", {}, []) == ""


def test_a_grid_of_figures_alone_has_a_page(tmp_path: Path) -> None:
    done, waiting = (analysis_cell(tmp_path, f"{number:012x}") for number in (1, 2))
    for cell in (done, waiting):
        cell.create("analysis", {"analysis": "lengths", "series": [], "options": {"tokenizer": "<t>"}})
    (done.folder / "lengths.svg").write_bytes(DRAWING)
    (done.folder / "lengths.csv").write_text("data,texts\n<b>,3\n")
    summary = [{"data": "<b>", "texts": 3, "median": 2.0, "99%": 4.0, "longest": 5}]
    done.finish(1.0, analysis="lengths", files={"lengths.svg": "0", "lengths.csv": "0"}, summary=summary, metrics={})
    figures = [AnalysisRecord(cell.id, f"a{i}", 0, "lengths", "<i>", []) for i, cell in enumerate((done, waiting))]
    GridRecord("fig", "Figures", [], [], analyses=figures).save(tmp_path)
    page = render_page(gather(load_grid(tmp_path, "fig"), tmp_path))
    assert page.count('<svg class="drawn"') == 1
    assert "half of them of up to 2 tokens" in page
    assert "Tokenizer: &lt;t&gt;." in page
    assert "Not done: planned" in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "1 of 2 cells" in page
    assert 'href="#analyses"' in page
    assert 'href="#table"' not in page
