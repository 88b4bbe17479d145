"""A rank that trains nothing: it does what the configuration's model path says. Without torch, so it starts at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lmk_train.data.errors import DataError
from lmk_train.ranks import child
from lmk_train.ranks.signals import SIGNALS, Preempted


def work(connection: Connection, spec: dict[str, Any]) -> None:
    rank, folder, do = spec["rank"], Path(spec["folder"]), spec["config"]["model"]["path"]
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    if rank == 0:
        recorder = child.ForwardingRecorder(connection)
        recorder.event("start", processes=spec["size"])
        recorder.metrics({"train/loss": 0.1 + 0.2}, 3)
        recorder.progress(3, 6)
        if do == "save":
            _save(recorder)
        if do == "listen":
            (folder / "listened").touch()
    if do == "return":
        return
    if rank == 1 and do == "raise":
        raise ValueError(f"the loss is nan\nthreads: {os.environ['OMP_NUM_THREADS']}")
    if rank == 1 and do == "data error":
        raise DataError("rows.jsonl", 17, "'pos' must be a list")
    if rank == 1 and do == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and do == "start":  # a scheduler signals all processes, whether they have a handler yet or not
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    if rank == 0 and do == "start":
        return
    if rank == 1 and do == "leave":
        os._exit(0)
    if rank == 0 and do in ("raise", "die"):  # what a collective does when its peer is gone
        while not _gone(int(_read(folder / "pid-1"))):
            time.sleep(0.01)
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:2")
    time.sleep(600)


def _save(recorder: child.ForwardingRecorder) -> None:
    """As a training that is told to stop: what comes while it reports that it has saved is too late for it."""
    try:
        time.sleep(600)
    except Preempted:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        recorder.event("preempted")
        raise


def _read(path: Path) -> str:
    while not path.exists() or not path.read_text():
        time.sleep(0.01)
    return path.read_text()


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


if __name__ == "__main__":
    child._train = work
    child.main(Connection(int(sys.argv[1])), int(sys.argv[2]))
