"""The processes of one node: how they report, fail and end, with ranks that train nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from lmk_core.recording import NullRecorder
from lmk_train.config import TrainConfig
from lmk_train.data.errors import DataError
from lmk_train.ranks import RankFailedError
from lmk_train.ranks.launch import launch
from lmk_train.ranks.signals import Preempted

HERE = Path(__file__).parent
PATIENCE_SECONDS = 30


@pytest.fixture(autouse=True)
def _ranks_train_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmk_train.ranks.launch.CHILD", "rank_child")
    monkeypatch.syspath_prepend(str(HERE))


def config_of(do: str, devices: int = 2) -> TrainConfig:
    return TrainConfig.model_validate(
        {
            "model": {"path": do},
            "pooling": {"kind": "mean"},
            "data": {"train": ["rows.jsonl"]},
            "optim": {"steps": 6, "batch_size": 8, "learning_rate": 1e-3},
            "runtime": {"devices": devices},
        }
    )


def processes(folder: Path, size: int = 2) -> list[int]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = [path.read_text() for path in folder.glob("pid-*")]
        if len(found) == size and all(found):
            return [int(pid) for pid in found]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def all_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def none_left() -> bool:
    return not [child for child in psutil.Process().children(recursive=True) if "rank_child" in child.cmdline()]


def test_the_first_rank_reports_to_the_callers_recorder(tmp_path, recorder):
    launch(config_of("return", devices=3), tmp_path, recorder)
    assert recorder.events == [{"event": "start", "processes": 3}]
    assert recorder.values == [(3, {"train/loss": 0.1 + 0.2})]
    assert recorder.steps == [(3, 6, "step")]
    assert none_left()


def test_the_error_of_one_rank_ends_all_and_is_raised(tmp_path, recorder, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    with pytest.raises(ValueError, match="the loss is nan\nthreads: 1") as caught:
        launch(config_of("raise"), tmp_path, recorder)
    [note] = caught.value.__notes__
    assert note.startswith("raised on rank 1 of 2 on ")
    assert "rank_child.py" in note
    [failed] = [event for event in recorder.events if event["event"] == "rank_failed"]
    assert (failed["rank"], failed["processes"]) == (1, 2)
    assert failed["reason"].endswith("ValueError: the loss is nan")
    assert "rank_child.py" in failed["trace"]
    assert none_left()


def test_an_error_with_its_own_form_comes_over_or_is_told(tmp_path, recorder):
    with pytest.raises(DataError, match=r"rows\.jsonl:17: 'pos' must be a list") as caught:
        launch(config_of("data error"), tmp_path, recorder)
    assert caught.value.line == 17


@pytest.mark.parametrize(
    ("do", "told"),
    [
        ("die", r"rank 1 of 2 on \S+: it was ended by SIGKILL \(the system does this when memory runs out\)"),
        ("leave", r"rank 1 of 2 on \S+: it ended with exit code 0, and said no more than its log"),
    ],
)
def test_a_rank_that_ends_without_a_word_is_named(do, told, tmp_path, recorder):
    """Though the other one has said before that its connection is gone."""
    with pytest.raises(RankFailedError, match=told):
        launch(config_of(do), tmp_path, recorder)
    assert recorder.events[-1]["rank"] == 1
    assert none_left()


def test_a_rank_that_is_killed_while_the_recorder_works_is_named(tmp_path):
    """Its line is gone when the answer is ready."""

    class Killing(NullRecorder):
        def progress(self, done, total, unit="step"):
            os.kill(int((tmp_path / "pid-0").read_text()), signal.SIGKILL)
            time.sleep(0.3)

    with pytest.raises(RankFailedError, match=r"rank 0 of 2 on .*SIGKILL"):
        launch(config_of("report"), tmp_path, Killing())
    assert none_left()


def test_what_the_recorder_raises_ends_the_training(tmp_path, recorder, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder, "metrics", full)
    with pytest.raises(OSError, match="No space left") as caught:
        launch(config_of("listen"), tmp_path, recorder)
    assert caught.value.errno == 28
    assert "rank 0 of 2" in caught.value.__notes__[0]
    assert not (tmp_path / "listened").exists()
    assert none_left()


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_to_the_caller_ends_all_ranks(number, raised, tmp_path, recorder):
    before = signal.getsignal(signal.SIGTERM)

    def interrupt() -> None:
        processes(tmp_path)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    with pytest.raises(raised) as caught:
        launch(config_of("wait"), tmp_path, recorder)
    if raised is SystemExit:
        assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == before
    assert none_left()


class Telling:
    """A recorder whose process is told to end when all ranks are at work, and to queue again when they have saved."""

    def __init__(self, recorder: Any, folder: Path) -> None:
        self.recorder, self.folder = recorder, folder

    def event(self, kind: str, **fields: Any) -> None:
        self.recorder.event(kind, **fields)
        if kind == "preempted":
            signal.raise_signal(signal.SIGUSR2)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self.recorder.metrics(values, step)

    def progress(self, *_: Any) -> None:
        processes(self.folder)
        threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGTERM)).start()


def test_a_request_to_queue_again_is_not_lost_behind_an_order_to_end(tmp_path, recorder):
    """Handlers as submitit has them: SIGTERM is passed over, SIGUSR2 queues the job again and exits."""
    handled: list[int] = []

    def requeue(number: int, _: Any) -> None:
        handled.append(number)
        sys.exit(99)

    before = {signal.SIGUSR2: requeue, signal.SIGTERM: lambda number, _: handled.append(number)}
    before = {number: signal.signal(number, handler) for number, handler in before.items()}
    try:
        with pytest.raises(SystemExit) as caught:
            launch(config_of("save"), tmp_path, Telling(recorder, tmp_path))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert [event["event"] for event in recorder.events] == ["start", "preempted"]
    assert (caught.value.code, handled) == (99, [signal.SIGUSR2])
    assert none_left()


def test_a_rank_that_is_signalled_before_it_has_a_handler_has_not_failed(tmp_path, recorder):
    with pytest.raises(Preempted) as caught:
        launch(config_of("start"), tmp_path, recorder)
    assert caught.value.code == 128 + signal.SIGTERM
    assert recorder.kinds() == ["start"]
    assert none_left()


SCRIPT = """
import sys
from pathlib import Path
from lmk_core.recording import NullRecorder
from lmk_core.recording import NullRecorder
from lmk_train.config import TrainConfig
from lmk_train.ranks import launch
launch.CHILD = "rank_child"
launch.launch(TrainConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), NullRecorder())
"""


def test_ranks_do_not_outlive_a_killed_caller(tmp_path):
    """From a script without a main guard, whose folder is on its path alone."""
    script = tmp_path / "train.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\n{SCRIPT}")
    caller = subprocess.Popen([sys.executable, str(script), config_of("wait").model_dump_json(), str(tmp_path)])
    try:
        pids = processes(tmp_path)
    finally:
        caller.kill()
        caller.wait()
    assert all_gone(pids)
