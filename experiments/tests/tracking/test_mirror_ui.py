from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from lmk_experiments.mirror import ui_command

_LMK = [sys.executable, "-m", "lmk_experiments.cli.main"]
_DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    open(sys.argv[1], "w").close()
while True:
    time.sleep(1)
"""
_SERVE = """
import sys
from lmk_experiments.mirror import serve
sys.exit(serve([sys.executable, "-c", *sys.argv[1:]], None, grace_seconds=0.5))
"""


def _group(leader: int) -> list[int]:
    """The living processes whose parent is, or was, in the tree of ``leader``."""
    import psutil

    return [process.pid for process in psutil.Process(leader).children(recursive=True)]


def _all_gone(pids: list[int]) -> bool:
    import psutil

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        alive = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def _wait(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).read()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_ui_alone_ends_the_server_and_its_workers(tmp_path, free_port, number):
    command = [*_LMK, "ui", "--root", str(tmp_path), "--port", str(free_port)]
    servers: list[int] = []
    # As in a shell's background, where SIGINT is ignored.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ) as ui:
        try:
            _wait(lambda: _answers(f"http://127.0.0.1:{free_port}/health"), ui)
            servers = _group(ui.pid)
            assert servers
            # A browser that keeps its connection open does not keep the server alive.
            with socket.create_connection(("127.0.0.1", free_port)):
                os.kill(ui.pid, number)
                said, _ = ui.communicate(timeout=30)
            assert ui.returncode == 0
            assert _all_gone(servers)
            assert "Traceback" not in said
        finally:
            ui.kill()
            for pid in servers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_a_server_that_does_not_listen_is_killed_with_its_workers(tmp_path):
    started = tmp_path / "started"
    serving = subprocess.Popen([sys.executable, "-c", _SERVE, _DEAF, str(started)])
    _wait(started.exists, serving)
    servers = _group(serving.pid)
    assert len(servers) == 3, "the server, its worker, and what ends both where this process is killed outright"
    serving.terminate()
    assert serving.wait(30) == 0
    assert _all_gone(servers)


def test_a_server_that_ends_by_itself_gives_its_exit_code():
    from lmk_experiments.mirror import serve

    before = signal.getsignal(signal.SIGTERM)
    assert serve([sys.executable, "-c", "raise SystemExit(7)"], None) == 7
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("port", [0, -1, 65536, 99999])
def test_what_is_no_port_is_said_with_the_valid_range(tmp_path, port):
    with pytest.raises(ValueError, match=rf"--port {port}: a port is a number from 1 to 65535"):
        ui_command(tmp_path, port=port)
    assert not (tmp_path / "mlflow.db").exists()


def test_a_port_that_is_too_large_is_bad_input(tmp_path):
    command = [*_LMK, "ui", "--root", str(tmp_path), "--port", "70000"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "error: --port 70000: a port is a number from 1 to 65535\n"


def test_a_server_does_not_outlive_a_parent_that_is_killed_outright(free_port):
    script = (
        "import sys\nfrom lmk_experiments.mirror.ui import serve\n"
        f"serve([sys.executable, '-m', 'http.server', '{free_port}', '--bind', '127.0.0.1'], None, grace_seconds=1)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", free_port)) == 0

    def wait_until(wanted: bool) -> None:
        deadline = time.monotonic() + 120
        while answers() != wanted:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    try:
        wait_until(True)
    finally:
        parent.kill()
        parent.wait()
    wait_until(False)
