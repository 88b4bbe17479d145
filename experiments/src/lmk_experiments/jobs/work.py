"""The frame around the work of a cell: claim it, record how it ends, and never do it twice."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from lmk_experiments.jobs.policy import check_again
from lmk_experiments.mirror.live import mirrored_live
from lmk_experiments.records import Cell, CellRecorder, ClaimedElsewhere
from lmk_experiments.records.attempts import attempts, failure_kind, gpus_here
from lmk_experiments.records.claim import Claim, ClaimLost, claimed, heartbeat, holds, scheduler_job
from lmk_experiments.records.recorder import SayingRecorder
from lmk_experiments.records.tickets import user_name
from lmk_experiments.submit.snapshot import running_code
from lmk_experiments.usage import sampled

WAIT_SECONDS = 2.0
"""Between two looks at a cell that another process of this machine is working on, in seconds."""
_TAKEN_OVER = 75
"""The exit code of a process whose cell another has taken over."""


def work_on(cell: Cell, work: Callable[[CellRecorder], dict[str, Any]]) -> None:
    """Do the work of ``cell`` unless it is done, and write ``DONE.json`` with what ``work`` returns.

    On a laptop a cell that another living process holds is waited for; on a SLURM node, where waiting costs GPUs, it is
    an error.

    Raises:
        ClaimedElsewhere: on a SLURM node, another job holds the cell.
        ClaimLost: another process took the cell over in the meantime; nothing is written then.
        Exception: whatever the work raised, after it was recorded.
    """
    if cell.done() is not None:
        return
    # It looks for the last time when the claim is gone, and the cell no longer counts as running.
    with mirrored_live(cell):
        _work_on(cell, work)


def _work_on(cell: Cell, work: Callable[[CellRecorder], dict[str, Any]]) -> None:
    waited_for = ""
    while cell.done() is None:
        alive = heartbeat(cell.folder)  # of a start before this one, as long as its claim is there
        try:
            with claimed(cell.folder, on_loss=_end_at_once) as claim:
                if cell.done() is None:
                    _attempt(cell, claim, work, alive)
        except ClaimedElsewhere as holder:
            if "SLURM_JOB_ID" in os.environ:
                raise
            if str(holder) != waited_for:
                waited_for = str(holder)
                print(f"{holder}; waiting for it", flush=True)
            time.sleep(WAIT_SECONDS)


def _attempt(cell: Cell, claim: Claim, work: Callable[[CellRecorder], dict[str, Any]], alive: float) -> None:
    # A terminal has a bar of its own; a log has none.
    recorder = SayingRecorder(cell.folder, steps=not sys.stderr.isatty())
    started = time.monotonic()
    before = attempts(cell.events())
    if before and before[-1].ended is None:
        recorder.event("lost", at=max(alive, before[-1].started), **_progress(cell))
        before = attempts(cell.events())
    recorder.event("attempt", pid=os.getpid(), host=os.uname().nodename, user=user_name(), **_where())
    try:
        check_again(before, scheduler_job())
        with sampled(cell.folder):
            result = work(recorder)
        if not holds(cell.folder, claim):
            raise ClaimLost(f"{cell.folder.name} was taken over by another process while this one worked on it")
        cell.finish(time.monotonic() - started, **result)
    except ClaimLost:
        raise  # the records are another's by now
    except (KeyboardInterrupt, SystemExit) as stop:
        recorder.event("stopped", cause=getattr(stop, "cause", "signal"), **_progress(cell))
        raise
    except BaseException as error:
        trace = traceback.format_exc(limit=-8)
        recorder.event("failed", reason=_reason(error), failure=failure_kind(error), trace=trace, **_progress(cell))
        raise
    recorder.event("done")


def _end_at_once() -> None:
    """Another start of this job has the cell now: nothing may be written any more, not even on the way out."""
    print("lmk: another process has taken this cell over; this one ends here", file=sys.stderr, flush=True)
    os._exit(_TAKEN_OVER)


def _progress(cell: Cell) -> dict[str, object]:
    """How far the cell has come, for the event that says how an attempt ended."""
    now = cell.progress()
    return {} if now is None else {"step": now["done"], "unit": str(now.get("unit", "step"))}


def _where() -> dict[str, object]:
    """Which job this is, on which nodes, and which code it runs."""
    job = scheduler_job()
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    return {**running_code(), **({"job": job, "nodes": nodes, "gpus": gpus_here()} if job else {})}


def _reason(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
