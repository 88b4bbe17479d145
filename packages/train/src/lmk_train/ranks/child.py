"""What runs in a rank that :mod:`lmk_train.ranks.launch` has started."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from lmk_train.ranks.failures import describe, packed, unpacked
from lmk_train.ranks.place import Place
from lmk_train.ranks.signals import SIGNALS, Preempted

_LOOK_SECONDS = 0.5


class ForwardingRecorder:
    """The recorder of the first rank: each call is made in the process that started it, and waited for."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def event(self, kind: str, **fields: Any) -> None:
        """As of :class:`lmk_core.Recorder`."""
        self._call("event", kind, **fields)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """As of :class:`lmk_core.Recorder`."""
        self._call("metrics", dict(values), step)

    def progress(self, done: int, total: int, unit: str = "step") -> None:
        """As of :class:`lmk_core.Recorder`."""
        self._call("progress", done, total, unit)

    def _call(self, method: str, *values: Any, **named: Any) -> None:
        _send(self.connection, {"call": method, "values": values, "named": named})
        answer = json.loads(self.connection.recv_bytes())
        if "error" in answer:
            raise unpacked(answer["error"]) or RuntimeError(answer["reason"])


def main(connection: Connection, parent: int) -> None:
    """Trains as the rank that the first message names; what is raised goes to the process that started it."""
    threading.Thread(target=_follow, args=(parent,), name="parent", daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that one is interrupted, and ends this one
    for number in SIGNALS:
        signal.signal(number, _preempted)
    try:
        _train(connection, json.loads(connection.recv_bytes()))
    except Preempted as stop:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # it ends already: another must not cut off what it says
        _send(connection, {"preempted": stop.signal})
        raise
    except BaseException as error:
        failed = {**describe(error), "at": time.monotonic()}
        _send(connection, {"failed": failed, "error": packed(error)})
        raise
    _send(connection, {"done": True})


def _train(connection: Connection, spec: dict[str, Any]) -> None:
    from torch.distributed import TCPStore
    from transformers.utils import logging

    from lmk_core.recording import NullRecorder
    from lmk_train.config import PretrainConfig, TrainConfig
    from lmk_train.fitting import fit, on_gpu
    from lmk_train.ranks.group import formed

    if spec["rank"] or not sys.stderr.isatty():
        logging.disable_progress_bar()  # bars are for terminals, and one of them is enough
    config = (PretrainConfig if "method" in spec["config"] else TrainConfig).model_validate(spec["config"])
    place = Place(spec["rank"], spec["size"], spec["rank"])
    recorder = ForwardingRecorder(connection) if place.rank == 0 else NullRecorder()
    store = TCPStore("127.0.0.1", spec["port"], is_master=False)
    with formed(place, store, cuda=on_gpu(config)) as ranks:
        fit(config, Path(spec["folder"]), recorder, ranks)


def _preempted(number: int, _frame: FrameType | None) -> None:
    raise Preempted(number)


def _send(connection: Connection, message: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(message).encode())


def _follow(parent: int) -> None:
    """Ends this process, and its data workers, when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), int(sys.argv[2]))
