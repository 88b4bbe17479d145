"""Which jobs go to the scheduler together, and what each waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lmk_slurm.checks import check_jobs, in_order
from lmk_slurm.jobs import Job, Resources
from lmk_slurm.site import Site


@dataclass(eq=False)
class Array:
    """Jobs that one sbatch hands over: one shape, and the same kind of dependency.

    Attributes:
        tasks: each job with its index in the array.
        parent: what the jobs wait for, each for the task of its own index there: another array that is sent before,
            or the id of one that the scheduler has already. None where they wait for nothing.
        after_ok: single jobs that must succeed first (ids, or an array that is sent before and an index).
        after_any: whole arrays that must have ended first, however they did.
    """

    resources: Resources
    environment: Mapping[str, str]
    parent: Array | str | None = None
    after_ok: tuple[tuple[Array | str, int], ...] = ()
    after_any: tuple[Array | str, ...] = ()
    tasks: dict[int, Job] = field(default_factory=dict)

    @property
    def indices(self) -> str:
        """The indices as sbatch takes them, such as `0-3,5`."""
        return ",".join(_ranges(sorted(self.tasks)))

    def dependency(self, ids: Mapping[Array, str]) -> str | None:
        """The value of `--dependency`; an array that was not sent yet is told by `<array N>`."""

        def name(array: Array | str) -> str:
            return array if isinstance(array, str) else ids[array]

        if self.parent is not None:
            return f"aftercorr:{name(self.parent)}"
        if self.after_ok:
            return "afterok:" + ":".join(f"{name(array)}_{index}" for array, index in self.after_ok)
        return "afterany:" + ":".join(map(name, self.after_any)) if self.after_any else None


def arrange(jobs: Sequence[Job], site: Site, active: Mapping[str, str]) -> list[Array]:
    """The arrays that bring every missing job to the scheduler, parents first.

    A job is left out when its `done` paths exist or when it is in `active`. A job that waits for one other gets that
    one's index in an array of its own kind, and so waits for it alone (`aftercorr`). No array is longer than the
    site's limit.

    Args:
        active: name to id (`17_3`) of the jobs that the scheduler has and that have not ended.

    Raises:
        JobError: the jobs cannot be run as described, or ask for more than the site gives.
    """
    by_name = check_jobs(jobs)
    missing = {name for name, job in by_name.items() if job.missing() and name not in active}
    order = [name for name in by_name if name in missing]
    for name in order:
        site.check(by_name[name])
    placed: dict[str, tuple[Array | str, int]] = {name: _split(identity) for name, identity in active.items()}
    arrays: list[Array] = []
    depth: dict[str, int] = {}
    for name in in_order(by_name):
        depth[name] = 1 + max((depth[other] for other in by_name[name].after), default=0)
    for name in sorted(order, key=depth.__getitem__):  # stable: jobs of one depth stay in the order given
        job = by_name[name]
        needed = [placed[other] for other in job.after if by_name[other].missing()]
        array, index = _place(job, needed, arrays, site.max_array)
        array.tasks[index] = job
        placed[name] = (array, index)
    return arrays


def _place(job: Job, needed: list[tuple[Array | str, int]], arrays: list[Array], most: int) -> tuple[Array, int]:
    """The array and the index for a job, in an array that is there already if it fits."""
    shape = (job.resources, dict(job.environment))
    if len(needed) > 1:
        array = Array(*shape, after_ok=tuple(needed))
        arrays.append(array)
        return array, 0
    parent, index = needed[0] if needed else (None, None)
    for array in arrays:
        if (array.resources, dict(array.environment)) != shape or array.after_ok or array.parent != parent:
            continue
        slot = len(array.tasks) if index is None else index
        if slot not in array.tasks and len(array.tasks) < most:
            return array, slot
    array = Array(*shape, parent=parent)
    arrays.append(array)
    return array, 0 if index is None else index


def _split(identity: str) -> tuple[str, int]:
    array, _, index = identity.partition("_")
    return array, int(index or 0)


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    start = previous = None
    for number in [*numbers, None]:
        if previous is not None and number != previous + 1:
            yield str(start) if start == previous else f"{start}-{previous}"
            start = number
        elif start is None:
            start = number
        previous = number
