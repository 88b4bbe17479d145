"""A real Chromium, driven through ChromeDriver's own protocol; the ``browser`` fixture gives a window of it.

With ``LMK_SCREENSHOTS=FOLDER`` the pages are kept as pictures.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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

NEEDS_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: chromium)"),
    pytest.mark.skipif(DRIVER is None, reason="needs ChromeDriver (Debian: chromium-driver)"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(look: Callable[[], Any], what: str, seconds: float = 600) -> Any:
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
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"performance": "ALL"}}
        self.driver = driver
        self.driver += f"/session/{self._ask('POST', '/session', capabilities={'alwaysMatch': wanted})['sessionId']}"

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self.driver + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=600) as reply:
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

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self._ask("POST", "/goog/cdp/execute", cmd=command, params=parameters)

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Show the page as a device of this size does."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)

    def requests(self) -> list[str]:
        """The addresses that were asked for since this was last called."""
        entries = self._ask("POST", "/se/log", type="performance")
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]


@contextmanager
def chromium(profile: Path) -> Generator[Browser]:
    """A window, and the driver that it hangs on, while this lasts."""
    port = free_port()
    with subprocess.Popen([str(DRIVER), f"--port={port}", "--log-level=SEVERE"]) as driver:
        try:
            until(lambda: answers(f"http://127.0.0.1:{port}/status"), "ChromeDriver")
            window = Browser(f"http://127.0.0.1:{port}", profile)
            yield window
            window.close()
        finally:
            driver.terminate()
