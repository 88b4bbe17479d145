"""What a job decides when it starts a cell again: to go on, or that going on leads nowhere.

A scheduler queues a job again by itself after a preemption and a lost node, and the job asks for it when its time is
nearly up. Nobody else looks at how often that has happened, so the job does.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

from lmk_experiments.errors import WorkFailed
from lmk_experiments.records.attempts import SAID, Attempt
from lmk_slurm.scheduler import history

TIMEOUTS_VARIABLE = "LMK_MAX_TIMEOUTS"
"""How often one job may run out of time; set in a job's script from its profile."""
MOST_LOST = 2
"""So often in a row a job may end without a word and without a step gained."""


class NotAgain(WorkFailed):
    """A job was started again and again and comes no further; a person should look."""


def check_again(starts: Sequence[Attempt], job: str | None) -> None:
    """Whether ``job`` may start its cell once more. Starts of other jobs count for nothing: a person has asked anew.

    Pushed out it goes on without limit. Out of time it goes on while each allocation gains steps, and at most
    ``LMK_MAX_TIMEOUTS`` times. After an end without a word it goes on once where no step was gained.

    Raises:
        NotAgain: it may not; the message says why.
    """
    own = [one for one in starts if job is not None and one.job == job]
    timeouts = [one for one in own if one.end == "time"]
    most = os.environ.get(TIMEOUTS_VARIABLE, "")
    if most.isdigit() and len(timeouts) > int(most):
        raise NotAgain(
            f"its time was up {len(timeouts)} times (max_timeouts is {most}); submit again, and it goes on from what "
            "it has saved, or give it more hours"
        )
    if own and own[-1].end == "time" and len(timeouts) > 1 and not _gained(timeouts[-2], timeouts[-1]):
        raise NotAgain(
            f"its time was up twice at {timeouts[-1].unit} {timeouts[-1].step}: it gains nothing in one allocation; "
            "save more often, or give it more hours"
        )
    silent = _silent(own)
    if job is not None and silent >= MOST_LOST and not _taken_away(job):
        raise NotAgain(
            f"it {SAID['lost']} {silent} times in a row and gained nothing (a lost node, or memory that ran out); "
            "look at its log, then submit again"
        )


def _silent(own: Sequence[Attempt]) -> int:
    """How many starts in a row, the newest ones, have ended without a word and without gaining on the one before."""
    silent = 0
    for before, one in itertools.pairwise([None, *own]):
        if one is None or one.end != "lost":
            silent = 0
        else:
            further = before is not None and before.end == "lost" and _gained(before, one)
            silent = 1 if further else silent + 1
    return silent


def _taken_away(job: str) -> bool:
    """Whether the accounts say that the scheduler has taken this job's nodes away: a kill at once leaves no word."""
    ends = history(job)
    return bool(ends) and ends.count("NODE_FAIL") < MOST_LOST and set(ends) & {"PREEMPTED", "REQUEUED"} != set()


def _gained(before: Attempt, one: Attempt) -> bool:
    """Whether ``one`` came further. Only steps are counted from the cell's beginning, so other units are not asked."""
    if one.unit != "step" or before.unit != "step":
        return True
    return (one.step or 0) > (before.step or 0)
