"""The report in a real Chromium: at a desk, on a phone, in the dark, on paper, and without a network."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from browsing import NEEDS_CHROMIUM, Browser
from report_root import HOSTILE, write_report_root

from lmk_experiments.records import load_grid
from lmk_experiments.report import gather, render_page

pytestmark = NEEDS_CHROMIUM

WIDTHS = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
CONTRAST = """
function channel(v) { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }
function light(color) { const [r, g, b] = color.match(/[\\d.]+/g).map(Number);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); }
function ratio(a, b) { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); }
const paper = getComputedStyle(document.body).backgroundColor;
const card = getComputedStyle(document.querySelector('figure')).backgroundColor;
const texts = [...document.querySelectorAll('h1, td, th, .note, .below, a, summary')];
const bars = [...document.querySelectorAll('svg rect, svg .line')];
return [Math.min(...texts.map(e => ratio(getComputedStyle(e).color, paper))),
        Math.min(...bars.map(e => ratio(getComputedStyle(e)[e.matches('rect') ? 'fill' : 'stroke'], card))),
        Math.min(...[...document.querySelectorAll('svg text')].map(e => ratio(getComputedStyle(e).fill, card)))];
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = write_report_root(tmp_path_factory.mktemp("root"), rows=10)
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(gather(load_grid(root.path, "study"), root.path)), encoding="utf-8")
    return path.as_uri()


def test_it_opens_without_a_single_request(browser: Browser, page: str) -> None:
    browser.requests()
    browser.open(page)
    assert browser.requests() == [page] or set(browser.requests()) <= {"data:,"}
    assert browser.run("return performance.getEntriesByType('resource').map(e => e.name)") in ([], ["data:,"])
    assert browser.run("return document.scripts.length") == 0


def test_hostile_text_is_text(browser: Browser, page: str) -> None:
    browser.open(page)
    shown = browser.text()
    assert f"A study of {HOSTILE}" in shown
    assert "onerror=alert(1)" in shown
    assert browser.run("return document.querySelectorAll('script, img, iframe').length") == 0


@pytest.mark.parametrize(("name", "width"), [("desk", 1280), ("phone", 390), ("small", 320)])
def test_the_page_never_scrolls_sideways(browser: Browser, page: str, name: str, width: int) -> None:
    browser.resize(width)
    browser.open(page)
    scrolled, there = browser.run(WIDTHS)
    assert scrolled <= there <= width
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    scrolled, there = browser.run(WIDTHS)
    assert scrolled <= there, "with every table of numbers unfolded"
    browser.picture(f"report-{name}")
    table = "document.querySelector('#table table')"
    assert browser.run(f"return {table}.rows.length") == 2 + 11
    box = browser.run(f"const b = {table}.parentElement; return [b.scrollWidth, b.clientWidth, b.tabIndex]")
    assert box[2] == 0, "a box that scrolls is reached with the keyboard"
    if width < 500:
        assert box[0] > box[1], "the table scrolls in its own box"


@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_in_the_light_and_in_the_dark(browser: Browser, page: str, dark: bool) -> None:
    browser.resize(1280, dark=dark)
    browser.open(page)
    if dark:
        browser.picture("report-dark")
    texts, bars, labels = browser.run(CONTRAST)
    # What WCAG asks of text, and of graphics.
    assert texts >= 4.5
    assert labels >= 4.5
    assert bars >= 3


def test_it_prints(browser: Browser, page: str) -> None:
    browser.resize(1280, dark=True)
    browser.open(page)
    printed = base64.b64decode(browser.devtools("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert printed.startswith(b"%PDF")
    browser.devtools("Emulation.setEmulatedMedia", media="print")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    # A4 landscape less its margins is 273 mm, 1032 px.
    browser.devtools("Emulation.setDeviceMetricsOverride", width=1032, height=700, deviceScaleFactor=1, mobile=False)
    scrolled, there = browser.run(WIDTHS)
    assert scrolled <= there
    browser.devtools("Emulation.setEmulatedMedia", media="")
