"""Runs jobs on this machine: submitit's local executor, with its controller process replaced.

submitit's own controller outlives its parent, stops a job after two minutes by default, gives it one second between
the interrupt and the kill, hides every GPU that was not asked for, and names logs by process id. Here the process of
a job is a direct child, in a session of its own (a Ctrl-C in the terminal reaches the caller only, which then stops
its children with a grace period), and logs are numbered. Pickle, paths and what runs in the child stay submitit's.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from submitit.core.utils import JobPaths
from submitit.local.local import LocalExecutor, LocalJob

from lmk_slurm.checks import JobError
from lmk_slurm.child import PARENT_VARIABLE, call
from lmk_slurm.jobs import Job
from lmk_slurm.launcher import Phase, Report

_STEP_SECONDS = 0.02


@dataclass(frozen=True)
class LocalHandle:
    """A child process. `id` numbers the starts of a log folder."""

    id: str
    log: Path
    process: subprocess.Popen[bytes]


class LocalLauncher:
    """Starts each job as a child process of this one. Children never outlive it.

    Args:
        grace_seconds: how long a child may take to stop after SIGINT, and again after SIGTERM, before it is killed.
            Also how long an orphan (this process was killed) may take to stop after it has interrupted itself.
    """

    def __init__(self, *, grace_seconds: float = 10.0) -> None:
        self.grace_seconds = grace_seconds

    def check(self, job: Job) -> None:
        """Raises JobError for a job of several nodes or several processes."""
        for what, number in (("nodes", job.resources.nodes), ("tasks", job.resources.tasks)):
            if number != 1:
                raise JobError(job.name, f"{what} is {number}; on this machine the only valid number is 1")

    def submit(self, job: Job) -> LocalHandle:
        """Starts the child; OSError when the log folder cannot be written or no process can be started."""
        environment = dict(job.environment)
        if job.resources.gpus == 0:
            environment.setdefault("CUDA_VISIBLE_DEVICES", "")
        environment[PARENT_VARIABLE] = f"{os.getpid()}:{self.grace_seconds}"
        executor = _DirectExecutor(job.logs, environment)
        try:
            submitted = executor.submit(call, job.function, job.argument)
        except BaseException:
            if executor.process is not None:  # started, but its pickle could not be put in place
                _kill_group(executor.process)
                executor.process.wait()
            raise
        assert executor.process is not None
        return LocalHandle(submitted.job_id, submitted.paths.stdout, executor.process)

    def poll(self, handle: LocalHandle) -> Report:
        """Looks at the child; once it has ended, whatever it left running in its process group is killed."""
        if not _ended(handle.process):
            return Report(Phase.RUNNING)
        code = handle.process.returncode
        if code >= 0:
            return Report(Phase.ENDED, f"ended with exit code {code}", crashed=code != 0)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = " (the system does this when memory runs out)" if -code == signal.SIGKILL else ""
        return Report(Phase.ENDED, f"was ended by {name}{hint}")

    def cancel(self, handles: Sequence[LocalHandle]) -> None:
        """SIGINT to each child, SIGTERM to those left after the grace period, SIGKILL to their process groups.

        A KeyboardInterrupt meanwhile (an impatient second Ctrl-C) goes straight to SIGKILL and is raised then.
        """
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                for handle in handles:
                    if not _ended(handle.process):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(handle.process.pid, number)
                if _all_end([handle.process for handle in handles], self.grace_seconds):
                    return
        finally:
            for handle in handles:
                if not _ended(handle.process):
                    _kill_group(handle.process)
                    handle.process.wait()


class _DirectExecutor(LocalExecutor):
    """submitit's local executor, but what it starts is the job's own process, with its output in one numbered log."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder)
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def _submit_command(self, command: str) -> LocalJob[Any]:
        number, log = _next_log(self.folder)
        submitit_variables = {
            "SUBMITIT_EXECUTOR": "local",
            "SUBMITIT_LOCAL_JOB_ID": number,
            "SUBMITIT_LOCAL_NTASKS": "1",
            "SUBMITIT_LOCAL_JOB_NUM_NODES": "1",
            "SUBMITIT_LOCAL_NODEID": "0",
            "SUBMITIT_LOCAL_GLOBALID": "0",
            "SUBMITIT_LOCAL_LOCALID": "0",
        }
        with log:
            self.process = subprocess.Popen(  # noqa: S603 - submitit's own command line
                shlex.split(command),
                env={**os.environ, **self.environment, **submitit_variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return LocalJob(folder=self.folder, job_id=number, process=self.process)


def _next_log(folder: Path) -> tuple[str, IO[bytes]]:
    """The number of this start and its log, opened: a folder's earlier starts keep theirs."""
    names = (re.match(r"(\d+)_", path.name) for path in folder.iterdir())
    number = max((int(match[1]) for match in names if match), default=0) + 1
    while True:
        try:
            return str(number), JobPaths(folder, str(number)).stdout.open("xb")
        except FileExistsError:  # another process starts a job in this folder right now
            number += 1


def _ended(process: subprocess.Popen[bytes]) -> bool:
    if process.returncode is not None:
        return True
    # Looked at without being reaped: until then its id cannot be given to another process, so the group is ours.
    try:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        _kill_group(process)
    except ChildProcessError:  # reaped by someone else (a SIGCHLD handler of the caller's)
        pass
    process.wait()
    return True


def _all_end(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while running := [process for process in processes if not _ended(process)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP_SECONDS)
    return not running


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # macOS refuses (PermissionError) when the group holds only the ended child.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
