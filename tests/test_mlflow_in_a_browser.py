"""A finished grid in the MLflow UI, as a person sees it: a real Chromium, driven through ChromeDriver's own protocol.

With ``LMK_SCREENSHOTS=FOLDER`` the pages are kept as pictures.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from lmk_experiments.records import evaluation_cell, load_grid, training_cell

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1600,1100",
)
EXPANDER = 'button[data-component-id*="runnamecellrenderer"]'
LINKS = (
    "return Object.fromEntries([...document.querySelectorAll('a[href*=\"/runs/\"]')].map(a => [a.innerText, a.href]))"
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: chromium)"),
    pytest.mark.skipif(DRIVER is None, reason="needs ChromeDriver (Debian: chromium-driver)"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(look: Callable[[], Any], what: str, seconds: float = 90) -> Any:
    """What ``look`` gives once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not there: {what}"
        time.sleep(0.25)
    return found


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


class Browser:
    """One window; the few commands of the WebDriver protocol that these tests need."""

    def __init__(self, driver: str, profile: Path) -> None:
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        self.driver = driver
        self.driver += f"/session/{self._ask('POST', '/session', capabilities={'alwaysMatch': wanted})['sessionId']}"

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self.driver + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)["value"]

    def open(self, url: str) -> None:
        self._ask("POST", "/url", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        return self._ask("POST", "/execute/sync", script=script, args=arguments)

    def text(self) -> str:
        return self.run("return document.body.innerText")

    def shows(self, *texts: str) -> str:
        """Wait until the page shows all of ``texts``; returns its whole text."""

        def look() -> str:
            shown = self.text()
            return shown if all(text in shown for text in texts) else ""

        return until(look, f"{texts} on the page")

    def picture(self, name: str) -> None:
        if folder := os.environ.get("LMK_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def close(self) -> None:
        self._ask("DELETE", "")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    port = free_port()
    with subprocess.Popen([str(DRIVER), f"--port={port}", "--log-level=SEVERE"]) as driver:
        try:
            until(lambda: answers(f"http://127.0.0.1:{port}/status"), "ChromeDriver")
            window = Browser(f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("profile"))
            yield window
            window.close()
        finally:
            driver.terminate()


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
    numbers = [cell.strip(" *").removeprefix("<ins>").removesuffix("</ins>") for cell in line.split("|")[2:-1]]
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
