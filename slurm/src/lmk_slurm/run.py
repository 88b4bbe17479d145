"""The loop that runs jobs in the order of their dependencies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from lmk_slurm.checks import check_jobs, in_order
from lmk_slurm.interrupts import Interrupts
from lmk_slurm.jobs import Job, JobResult, JobState
from lmk_slurm.launcher import Handle, Launcher, Phase, Report
from lmk_slurm.logs import last_error, tail

_SLICE_SECONDS = 0.1


class JobsInterrupted(KeyboardInterrupt):
    """Ctrl-C while jobs ran. `results` says where each of them was left."""

    def __init__(self, results: dict[str, JobResult]) -> None:
        super().__init__("interrupted")
        self.results = results


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int = 1,
    poll_seconds: float = 0.5,
    on_change: Callable[[str, JobResult], None] | None = None,
    tick: Callable[[], None] | None = None,
    stop_on_interrupt: bool = True,
    launcher: Launcher | None = None,
) -> dict[str, JobResult]:
    """Runs the jobs, each when all it waits for are done, and returns how each ended, in the order given.

    A job is done when every path in its `done` exists after it has ended, whatever its exit code; one whose paths
    all exist already is not started. A failed job skips those that wait for it; the others go on.

    Args:
        at_once: how many run together.
        poll_seconds: time between two looks at the running jobs.
        on_change: called with a job's name and result whenever the result changes.
        tick: called after every look, so that the caller can refresh a display.
        stop_on_interrupt: on Ctrl-C, stop the running jobs before raising. False leaves them to the launcher: a
            scheduler's go on; those of this machine end together with this process.
        launcher: what runs a job; this machine by default.

    Raises:
        JobError: before anything is started, when the jobs cannot be run as described.
        JobsInterrupted: (a KeyboardInterrupt) on Ctrl-C, with the results so far.
        SystemExit: on SIGTERM or SIGHUP, which are treated like Ctrl-C.
    """
    if at_once < 1:
        raise ValueError(f"at_once is {at_once}; it must be 1 or more")
    if poll_seconds <= 0:
        raise ValueError(f"poll_seconds is {poll_seconds}; it must be more than 0")
    if launcher is None:
        from lmk_slurm.local import LocalLauncher  # submitit is imported when something is run, not before

        launcher = LocalLauncher()
    loop = _Loop(check_jobs(jobs), launcher, at_once, on_change)
    for job in jobs:
        launcher.check(job)
    try:
        with Interrupts() as interrupts:
            loop.begin()
            while loop.step():
                if tick is not None:
                    tick()
                _sleep(poll_seconds, interrupts)
            if tick is not None:
                tick()
            interrupts.raise_if_any()
    except KeyboardInterrupt as interrupt:
        if stop_on_interrupt:
            with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C: the launcher has hurried, that is all
                loop.stop("interrupted")
        raise JobsInterrupted(loop.results) from interrupt
    except BaseException:
        loop.stop("stopped, because the process that ran it ended")
        raise
    return loop.results


def _sleep(seconds: float, interrupts: Interrupts) -> None:
    # In slices: a recorded signal does not cut time.sleep short.
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        interrupts.raise_if_any()
        time.sleep(min(left, _SLICE_SECONDS))
    interrupts.raise_if_any()


class _Loop:
    """The state of one run. `step` looks at everything once; it never waits."""

    def __init__(
        self,
        jobs: dict[str, Job],
        launcher: Launcher,
        at_once: int,
        on_change: Callable[[str, JobResult], None] | None,
    ) -> None:
        self.jobs = jobs
        self.launcher = launcher
        self.at_once = at_once
        self.on_change = on_change
        self.results = {name: JobResult(JobState.WAITING) for name in jobs}
        self.handles: dict[str, Handle] = {}
        self.order = in_order(jobs)

    def begin(self) -> None:
        """Takes note of the jobs that are done already."""
        for name in self.order:
            self._was_done(name)

    def step(self) -> bool:
        """Looks at the running jobs, starts those that can start; whether anything is left to wait for."""
        for name, handle in list(self.handles.items()):
            self._look(name, handle)
        for name in self.order:
            self._skip(name)
        for name in self.jobs:
            self._start(name)
        return not all(result.state.ended for result in self.results.values())

    def stop(self, reason: str) -> None:
        """Stops what runs; whatever has not ended is cancelled, unless its work turns out to be done."""
        stopped = dict(self.handles)
        self.handles.clear()
        try:
            self.launcher.cancel(list(stopped.values()))
        finally:
            for name, job in self.jobs.items():
                if self.results[name].state.ended:
                    continue
                log = stopped[name].log if name in stopped else None
                done = name in stopped and not job.missing()
                self._set(
                    name, JobResult(JobState.DONE, log=log) if done else JobResult(JobState.CANCELLED, reason, log)
                )

    def _is_idle(self, name: str) -> bool:
        return self.results[name].state is JobState.WAITING and name not in self.handles

    def _skip(self, name: str) -> None:
        for needed in self.jobs[name].after if self._is_idle(name) else ():
            result = self.results[needed]
            if result.state is JobState.SKIPPED:  # its reason names the job at the root
                self._set(name, JobResult(JobState.SKIPPED, result.reason))
            elif result.state.ended and result.state is not JobState.DONE:
                self._set(name, JobResult(JobState.SKIPPED, f"{needed!r} {result.state}: {result.reason}"))

    def _start(self, name: str) -> None:
        job = self.jobs[name]
        if not self._is_idle(name) or len(self.handles) >= self.at_once:
            return
        if any(self.results[needed].state is not JobState.DONE for needed in job.after):
            return
        if self._was_done(name):  # by someone else, since the beginning
            return
        try:
            handle = self.launcher.submit(job)
        except OSError as error:
            self._set(name, JobResult(JobState.FAILED, f"could not be started: {error}"))
            return
        self.handles[name] = handle
        self._look(name, handle)

    def _was_done(self, name: str) -> bool:
        done = not self.jobs[name].missing()
        if done:
            self._set(name, JobResult(JobState.DONE, "was done already"))
        return done

    def _look(self, name: str, handle: Handle) -> None:
        report = self.launcher.poll(handle)
        if report.phase is Phase.ENDED:
            del self.handles[name]
            self._set(name, self._verdict(self.jobs[name], handle, report))
        elif report.phase is Phase.UNKNOWN:
            self._set(name, JobResult(self.results[name].state, f"unknown state {report.words!r}", handle.log))
        else:
            state = JobState.RUNNING if report.phase is Phase.RUNNING else JobState.WAITING
            self._set(name, JobResult(state, report.words, handle.log))

    def _verdict(self, job: Job, handle: Handle, report: Report) -> JobResult:
        missing = job.missing()
        if not missing:
            return JobResult(JobState.DONE, log=handle.log)
        names = ", ".join(str(path) for path in missing[:3]) + (", ..." if len(missing) > 3 else "")
        error = last_error(handle.log) if report.crashed else ""
        reason = f"{error} ({report.words}; no {names})" if error else f"{report.words}, without {names}"
        return JobResult(JobState.FAILED, reason, handle.log, tail(handle.log))

    def _set(self, name: str, result: JobResult) -> None:
        if result != self.results[name]:
            self.results[name] = result
            if self.on_change is not None:
                self.on_change(name, result)
