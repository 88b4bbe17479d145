"""The frame around the work of a cell: claim it, record how it ends, and never do it twice."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from typing import Any

from lmk_experiments.records import Cell, CellRecorder, ClaimedElsewhere
from lmk_experiments.records.claim import claimed

WAIT_SECONDS = 2.0
"""Between two looks at a cell that another process of this machine is working on, in seconds."""


def work_on(cell: Cell, work: Callable[[CellRecorder], dict[str, Any]]) -> None:
    """Do the work of ``cell`` unless it is done, and write ``DONE.json`` with what ``work`` returns.

    On a laptop a cell that another living process holds is waited for; on a SLURM node, where waiting costs GPUs, it is
    an error.

    Raises:
        ClaimedElsewhere: on a SLURM node, another job holds the cell.
        Exception: whatever the work raised, after it was recorded.
    """
    while cell.done() is None:
        try:
            with claimed(cell.folder):
                if cell.done() is None:
                    _attempt(cell, work)
        except ClaimedElsewhere as holder:
            if "SLURM_JOB_ID" in os.environ:
                raise
            print(f"{holder}; waiting for it", flush=True)
            time.sleep(WAIT_SECONDS)


def _attempt(cell: Cell, work: Callable[[CellRecorder], dict[str, Any]]) -> None:
    recorder = CellRecorder(cell.folder)
    started = time.monotonic()
    recorder.event("attempt", pid=os.getpid(), host=os.uname().nodename)
    try:
        result = work(recorder)
    except BaseException as error:
        recorder.event("failed", reason=_reason(error), trace=traceback.format_exc(limit=-8))
        raise
    cell.finish(time.monotonic() - started, **result)
    recorder.event("done")


def _reason(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "stopped"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
