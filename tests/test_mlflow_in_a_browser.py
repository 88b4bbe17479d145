"""A finished grid in the MLflow UI, as a person sees it: a real Chromium, driven through ChromeDriver's own protocol.

With ``LMK_SCREENSHOTS=FOLDER`` the pages are kept as pictures.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest
from browsing import NEEDS_CHROMIUM, Browser, answers, free_port, until

from lmk_experiments.records import evaluation_cell, load_grid, training_cell

EXPANDER = 'button[data-component-id*="runnamecellrenderer"]'
LINKS = (
    "return Object.fromEntries([...document.querySelectorAll('a[href*=\"/runs/\"]')].map(a => [a.innerText, a.href]))"
)

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def ui(finished: Path) -> Generator[str]:
    """The address of `lmk ui` on the finished grid."""
    port = free_port()
    lmk = str(Path(sys.executable).parent / "lmk")
    with subprocess.Popen([lmk, "ui", "--port", str(port)], cwd=finished, start_new_session=True) as server:
        try:
            until(lambda: answers(f"http://127.0.0.1:{port}/health"), "the MLflow UI")
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGINT)


@pytest.fixture(scope="module")
def experiments(ui: str) -> dict[str, str]:
    """Experiment name to the address of its page of runs."""
    data = json.dumps({"max_results": 10}).encode()
    request = urllib.request.Request(
        f"{ui}/api/2.0/mlflow/experiments/search", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        found = json.load(reply)["experiments"]
    return {one["name"]: f"{ui}/#/experiments/{one['experiment_id']}/runs" for one in found}


def tree(browser: Browser, page: str, count: int) -> dict[str, str]:
    """Open an experiment, unfold the grid's run, and give every run's name and address."""
    browser.open(page)
    until(lambda: browser.run(f"return document.querySelector('{EXPANDER}') !== null"), "a run that can be unfolded")
    if len(browser.run(LINKS)) == 1:
        browser.run(f"document.querySelector('{EXPANDER}').click()")
    return until(lambda: found if len(found := browser.run(LINKS)) == count else None, f"{count} runs")


def test_the_runs_are_a_tree_under_the_grid(browser: Browser, experiments: dict[str, str], finished: Path) -> None:
    record = load_grid(finished / "runs", "mini")
    trainings = tree(browser, experiments["lmk-train"], 1 + 3)
    browser.picture("trainings")
    assert set(trainings) == {"mini", "untrained", "cls", "lmk-var"}
    evaluations = tree(browser, experiments["lmk-evaluate"], 1 + 10)
    browser.picture("evaluations")
    assert set(evaluations) == {"mini", *(f"{row.row} / {suite}" for row in record.rows for suite in row.evaluations)}


def test_a_training_shows_its_params_and_its_curve(
    browser: Browser, experiments: dict[str, str], finished: Path
) -> None:
    address = tree(browser, experiments["lmk-train"], 1 + 3)["cls"]
    browser.open(address)
    shown = browser.shows("optim.learning_rate", "pooling.kind", "train/loss")
    browser.picture("run")
    training = next(one for one in load_grid(finished / "runs", "mini").trainings if one.row == "cls")
    assert training.id in shown or "lmk.cell" in shown
    browser.open(f"{address}/model-metrics")
    browser.shows("loss")
    points = "return document.querySelectorAll('.js-plotly-plot .scatterlayer path.js-line').length"
    until(lambda: browser.run(points) >= 2, "the lines of curves")
    browser.picture("curves")
    assert len(training_cell(finished / "runs", training.id).metrics()) == 3


def test_an_evaluation_shows_its_scores(browser: Browser, experiments: dict[str, str], finished: Path) -> None:
    browser.open(tree(browser, experiments["lmk-evaluate"], 1 + 10)["lmk-var-8 / short"])
    shown = browser.shows("short/functions/ndcg_at_10", "pooling.granularity")
    browser.picture("evaluation")
    row = next(row for row in load_grid(finished / "runs", "mini").rows if row.row == "lmk-var-8")
    done = evaluation_cell(finished / "runs", row.evaluations["short"]).done()
    assert done is not None
    assert f"{done['scores']['functions']['ndcg_at_10']:.4f}".rstrip("0") in shown


def test_the_grid_carries_its_table(browser: Browser, experiments: dict[str, str], finished: Path) -> None:
    address = tree(browser, experiments["lmk-train"], 1 + 3)["mini"]
    browser.open(f"{address}/artifacts/table.md")
    shown = browser.shows("table.md", "A mini grid", "multicls", "lmk-var-16")
    browser.picture("table")
    lines = (finished / "first.txt").read_text().splitlines()
    line = next(line for line in lines if line.startswith("| lmk-var-16"))
    cells = [cell.replace("†", "").strip(" *") for cell in line.split("|")[2:-1]]  # the artifact has no tests
    numbers = [cell.removeprefix("<ins>").removesuffix("</ins>") for cell in cells]
    assert len(numbers) == 2
    assert all(number in shown for number in numbers), (numbers, shown)


def test_the_table_is_a_page_with_underlines_too(browser: Browser, experiments: dict[str, str]) -> None:
    address = tree(browser, experiments["lmk-train"], 1 + 3)["mini"]
    browser.open(f"{address}/artifacts/table.html")
    browser.shows("table.html")
    frame = "return document.querySelector('iframe') !== null"
    until(lambda: browser.run(frame), "the frame with the page")
    time.sleep(2)  # the frame's content comes from a sandbox that scripts of the page cannot look into
    assert browser.run(frame), "the frame is still there when the page has settled"
    browser.picture("table-page")
