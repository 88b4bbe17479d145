from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from lmk_experiments.mirror import LockedError, PortInUseError, StoreError, open_store, sync, tracking_uri, ui_command
from lmk_experiments.mirror.lock import locked
from lmk_experiments.records.claim import STALE_SECONDS
from lmk_experiments.records.tickets import user_name


def test_the_address_is_the_argument_then_ours_then_mlflows_then_the_roots(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///here.db")
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/here.db"
    monkeypatch.setenv("LMK_STORE", "local/ours.db")
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/local/ours.db"
    assert tracking_uri(tmp_path, "http://server:5000") == "http://server:5000"


@pytest.mark.parametrize("uri", ["./mlruns", "file:///tmp/mlruns", "ftp://host/x", "runs"])
def test_addresses_that_do_not_work_are_refused(tmp_path, uri):
    with pytest.raises(StoreError, match=r"valid: a path ending in .db, or an address that starts with sqlite"):
        tracking_uri(tmp_path, uri)


def test_no_password_is_written_or_said(tmp_path):
    with pytest.raises(StoreError) as caught:
        open_store(tmp_path, "postgresql+nodriver://me:secret@127.0.0.1:9/db")
    assert "secret" not in str(caught.value)
    assert "postgresql+nodriver://127.0.0.1:9/db" in str(caught.value)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write beside .*LMK_STORE puts the database elsewhere"):
        open_store(tmp_path, f"sqlite:///{tmp_path}/file/mlflow.db")


def test_something_else_than_a_database_is_said(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database at all, " * 100)
    with pytest.raises(StoreError, match=r"cannot use the MLflow store sqlite:///.*/mlflow.db: .*not a database"):
        open_store(tmp_path)


def test_three_processes_open_one_fresh_store(tmp_path):
    code = (
        "import sys, pathlib; from lmk_experiments.mirror import open_store;"
        "print(dict(open_store(pathlib.Path(sys.argv[1])).experiments))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    started = [subprocess.Popen(command, stdout=-1, stderr=-1, text=True) for _ in range(3)]
    ended = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0] * 3, ended
    # The same experiments for all, and no noise of MLflow's.
    assert len({out for out, _ in ended}) == 1
    assert {error for _, error in ended} == {""}


def test_a_deleted_experiment_is_named(tmp_path):
    store = open_store(tmp_path)
    store.client.delete_experiment(store.experiments["training"])
    with pytest.raises(StoreError, match=r"'lmk-train' was deleted .*`mlflow experiments restore --experiment-id 1"):
        open_store(tmp_path)


def _hold(path, held):
    with locked(path):
        held.set()
        time.sleep(600)


def test_a_lock_is_named_while_it_is_held_and_free_when_its_process_is_killed(tmp_path):
    path = tmp_path / "a.lock"
    context = multiprocessing.get_context("fork")
    held = context.Event()
    holder = context.Process(target=_hold, args=(path, held), daemon=True)
    holder.start()
    assert held.wait(30)
    named = f"held by process {holder.pid} of {user_name()} on {socket.gethostname()} since 2"
    with pytest.raises(LockedError, match=named), locked(path, wait_seconds=0):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert json.loads(path.read_text())["pid"] == holder.pid
    with locked(path, wait_seconds=0):
        assert json.loads(path.read_text()) | {"since": ""} == {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "user": user_name(),
            "since": "",
        }
    assert path.read_text() == ""


_ELSEWHERE = '{"host": "elsewhere", "pid": 7, "since": "then"}'


def test_a_lock_of_another_host_is_respected_while_it_is_touched(tmp_path):
    path = tmp_path / "a.lock"
    path.write_text(_ELSEWHERE)
    os.utime(path, (time.time() - STALE_SECONDS + 100,) * 2)
    named = (
        r"process 7 on elsewhere since then; if that process is gone, the lock is free in (100|9\d) seconds, "
        f"or at once when you delete {path}"
    )
    with pytest.raises(LockedError, match=named), locked(path, wait_seconds=0):
        pass
    assert path.read_text() == _ELSEWHERE


def test_a_lock_of_another_host_that_gives_no_sign_of_life_is_taken_over(tmp_path):
    path = tmp_path / "a.lock"
    path.write_text(_ELSEWHERE)
    os.utime(path, (time.time() - STALE_SECONDS - 1,) * 2)
    with locked(path, wait_seconds=0):
        assert json.loads(path.read_text())["host"] == socket.gethostname()
    assert path.read_text() == ""


def test_a_holder_touches_its_lock_while_it_works(tmp_path, monkeypatch):
    monkeypatch.setattr("lmk_experiments.mirror.lock.BEAT_SECONDS", 0.01)
    path = tmp_path / "a.lock"
    with locked(path):
        os.utime(path, (1000, 1000))
        deadline = time.monotonic() + 30
        while path.stat().st_mtime < 2000 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 2000
    assert "lock" not in {thread.name for thread in threading.enumerate()}


def test_a_lock_that_was_taken_over_is_left_to_its_new_holder(tmp_path, monkeypatch):
    monkeypatch.setattr("lmk_experiments.mirror.lock.BEAT_SECONDS", 0.01)
    path = tmp_path / "a.lock"
    with locked(path):
        path.write_text(_ELSEWHERE)
        time.sleep(0.05)
        os.utime(path, (1000, 1000))
        time.sleep(0.05)
        assert path.stat().st_mtime == 1000
    assert path.read_text() == _ELSEWHERE


def test_two_syncs_at_once_do_not_mix(two_rows, uri):
    with locked(two_rows.path / "mlflow-sync.lock"), pytest.raises(LockedError):
        sync(two_rows.path, uri=uri, wait_seconds=0)
    assert sync(two_rows.path, uri=uri).created == 5


def test_the_ui_shows_the_tree_and_the_table(two_rows, uri, free_port):
    sync(two_rows.path, uri=uri, table_text=lambda grid: "| the table |")
    command = ui_command(two_rows.path, uri=uri, port=free_port)
    assert command.url == f"http://127.0.0.1:{free_port}"
    server = subprocess.Popen(
        command.argv, env=command.env, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        _wait_for(f"{command.url}/health", server)
        store = open_store(two_rows.path, command.url)
        experiment = store.client.get_experiment_by_name("lmk-evaluate")
        parents = store.client.search_runs(
            [experiment.experiment_id],
            f'tags.`lmk.kind` = "grid" and tags.`lmk.root` = "{two_rows.path.resolve()}"',
        )
        assert [run.info.run_name for run in parents] == ["small"]
        url = f"{command.url}/get-artifact?path=table.md&run_uuid={parents[0].info.run_id}"
        assert urllib.request.urlopen(url).read() == b"| the table |"
        # The same records through the server: no second run of any cell.
        assert sync(two_rows.path, uri=command.url).created == 0
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def _wait_for(url: str, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.poll() is None, "the server ended"
        try:
            urllib.request.urlopen(url, timeout=5).read()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(url)


def test_a_server_needs_no_ui_of_ours_and_a_taken_port_is_said(tmp_path):
    command = ui_command(tmp_path, uri="http://server:5000")
    assert (command.url, command.argv) == ("http://server:5000", [])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PortInUseError, match="choose another: --port"):
            ui_command(tmp_path, port=taken.getsockname()[1])


def test_importing_the_mirror_and_the_tables_is_light():
    code = (
        "import sys, lmk_experiments.mirror, lmk_experiments.tables;"
        "print([name for name in ('mlflow', 'torch', 'lightning', 'mteb', 'transformers') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
