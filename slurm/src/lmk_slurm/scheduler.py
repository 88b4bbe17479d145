"""SLURM's commands: what it says of jobs, and how they are stopped. One call, however many jobs."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmk_slurm.launcher import Phase

_SECONDS = 60
_QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING"}
_ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
}
_INHERITED = re.compile(r"(SLURM|SBATCH|SRUN|SUBMITIT)_")
_CANCEL_AT_ONCE = 500


class SchedulerError(OSError):
    """A command of SLURM is missing, does not answer, or refuses."""


@dataclass(frozen=True)
class Ticket:
    """A job that was handed to the scheduler.

    Job numbers start again at 1 on a new cluster, so the name, which holds a token, says whether a job is this one.
    """

    id: str
    """`17_3`"""
    name: str


@dataclass(frozen=True)
class Sighting:
    """What the scheduler says of one job."""

    state: str
    """its own word, such as PENDING"""
    reason: str = ""
    """why it waits, or how it ended"""
    nodes: str = ""

    @property
    def phase(self) -> Phase:
        """What that means; UNKNOWN for a word that means nothing to us."""
        for phase, words in ((Phase.QUEUED, _QUEUED), (Phase.RUNNING, _RUNNING), (Phase.ENDED, _ENDED)):
            if self.state in words:
                return phase
        return Phase.UNKNOWN


GONE = Sighting("GONE", "the scheduler no longer knows this job")
"""Said of a job that neither the controller nor the accounts have: it has ended, nobody knows how."""


def run(command: Sequence[str]) -> str:
    """The output of one of SLURM's commands.

    Raises:
        SchedulerError: with the command's own words.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a list, and no shell
            command, capture_output=True, text=True, check=False, timeout=_SECONDS, env=clean_environment()
        )
    except FileNotFoundError:
        raise SchedulerError(f"no command {command[0]!r} here; is this a login node of the cluster?") from None
    except subprocess.TimeoutExpired:
        raise SchedulerError(f"{command[0]} did not answer within {_SECONDS} s") from None
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise SchedulerError(f"{command[0]}: {'; '.join(words[-2:])}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """This process's environment without what a job's own SLURM has put there: jobs may be submitted from jobs."""
    return {name: value for name, value in os.environ.items() if name == "SLURM_CONF" or not _INHERITED.match(name)}


def look(tickets: Iterable[Ticket]) -> dict[str, Sighting]:
    """What the scheduler says of each job, by id: the controller's word, then the accounts', else `GONE`.

    That is one `squeue` for all of them, and one `sacct` when the controller has forgotten some (it keeps ended jobs
    for some minutes only). The accounts alone are not enough: they lag, and call a job lost that was queued again.

    Raises:
        SchedulerError: the controller cannot be asked. (Accounts that cannot be asked are done without.)
    """
    wanted = {ticket.id: ticket.name for ticket in tickets}
    if not wanted:
        return {}
    found = _matching(wanted, _squeue(_arrays(wanted)))
    rest = {identity: name for identity, name in wanted.items() if identity not in found}
    if rest:
        told = _matching(rest, _sacct(_arrays(rest)))
        # A job that the controller does not have neither waits nor runs, whatever the accounts say: they lag, and never
        # hear of the end of a job that a controller has lost.
        found |= {identity: seen for identity, seen in told.items() if seen.phase not in (Phase.QUEUED, Phase.RUNNING)}
    return {identity: found.get(identity, GONE) for identity in wanted}


def find(names: Sequence[str]) -> dict[str, str]:
    """Job name to array id, for the jobs of these names that the controller has, or had.

    Raises:
        SchedulerError: the controller cannot be asked. (Accounts that cannot be asked are done without.)
    """
    if not names:
        return {}
    listed = run(["squeue", "--noheader", "--states=all", "--format=%F|%j", f"--name={','.join(names)}"])
    found = {name: identity for identity, _, name in (line.partition("|") for line in listed.splitlines())}
    if missing := [name for name in names if name not in found]:
        columns = ["--format=JobID,JobName", "--starttime=now-7days"]
        with contextlib.suppress(SchedulerError):
            for line in run(["sacct", "-X", "-n", "-P", *columns, f"--name={','.join(missing)}"]).splitlines():
                identity, _, name = line.partition("|")
                found[name] = identity.partition("_")[0]
    return found


def history(identity: str) -> list[str]:
    """The accounts' word on each start of one job, oldest first; empty where they cannot be asked."""
    try:
        listed = run(["sacct", "-D", "-X", "-n", "-P", "--format=State", f"--jobs={identity}"])
    except SchedulerError:
        return []
    return [line.partition(" ")[0] for line in listed.splitlines()]


def cancel(ids: Sequence[str]) -> None:
    """Asks the scheduler to stop these jobs; those that have ended are passed over."""
    for start in range(0, len(ids), _CANCEL_AT_ONCE):
        run(["scancel", *ids[start : start + _CANCEL_AT_ONCE]])


def _arrays(ids: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(identity.partition("_")[0] for identity in ids))


def _matching(wanted: Mapping[str, str], seen: Mapping[str, tuple[str, Sighting]]) -> dict[str, Sighting]:
    return {identity: seen[identity][1] for identity, name in wanted.items() if seen.get(identity, [""])[0] == name}


def _squeue(arrays: str) -> dict[str, tuple[str, Sighting]]:
    try:
        listed = run(["squeue", "--noheader", "--array", "--states=all", "--format=%i|%j|%T|%r|%N", f"--jobs={arrays}"])
    except SchedulerError as error:
        if "Invalid job id" in str(error):  # said when it has none of them
            return {}
        raise
    seen = {}
    for line in listed.splitlines():
        identity, name, state, reason, nodes = (line.split("|") + [""] * 5)[:5]
        seen[identity] = (name, Sighting(state, "" if reason == "None" else reason, nodes))
    return seen


def _sacct(arrays: str) -> dict[str, tuple[str, Sighting]]:
    columns = "JobID,JobName,State,ExitCode,NodeList"
    try:
        listed = run(["sacct", "-X", "-n", "-P", f"--format={columns}", f"--jobs={arrays}"])
    except SchedulerError:
        return {}
    seen = {}
    for line in listed.splitlines():
        identity, name, state, code, nodes = (line.split("|") + [""] * 5)[:5]
        word, _, rest = state.partition(" ")  # "CANCELLED by 1000"
        reason = rest or (f"exit code {code.partition(':')[0]}" if word == "FAILED" else "")
        for one in _expand(identity):
            seen[one] = (name, Sighting(word, reason, "" if nodes == "None assigned" else nodes))
    return seen


def _expand(identity: str) -> list[str]:
    """`17_[0-2,5%4]`, as the accounts write tasks that never started, one by one."""
    match = re.fullmatch(r"(\d+)_\[([\d,-]+)(?:%\d+)?\]", identity)
    if match is None:
        return [identity]
    ids = []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        ids += [f"{match[1]}_{index}" for index in range(int(first), int(last or first) + 1)]
    return ids
