"""What one cell asks of the machine: a function of what the cell is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lmk_experiments.grids.needs import Facts, Need, ResourcesSection
from lmk_experiments.profiles.schema import Profile
from lmk_slurm import Resources

_FIELDS = ("nodes", "tasks", "gpus", "cpus", "memory_gb", "hours")


def resources_of(facts: Facts, grid: ResourcesSection, profile: Profile | None = None) -> Resources:
    """What the cell with these facts asks of one allocation.

    Later ones win, key by key: the defaults, the profile's section of this kind, the profile's rules, the grid's
    section, the grid's rules.

    Raises:
        ValueError: a training with more processes than GPUs, or an evaluation or analysis of several processes.
    """
    said: dict[str, Any] = {}
    for layer in _layers(facts, grid, profile):
        said |= {name: value for name in layer.model_fields_set if (value := getattr(layer, name, None)) is not None}
    defaults = {name: getattr(Need(), name) for name in _FIELDS}
    if facts.kind == "training":
        defaults |= {"nodes": facts.nodes, "tasks": said.get("gpus") or facts.devices}
    chosen = {name: said.get(name, defaults[name]) for name in _FIELDS}
    if profile is not None and profile.max_hours is not None and chosen["hours"] is not None:
        # What takes longer goes on in further allocations, as what runs out of time does anyway.
        chosen["hours"] = min(chosen["hours"], profile.max_hours)
    _check(facts, chosen)
    return Resources(**chosen)


def _check(facts: Facts, chosen: dict[str, Any]) -> None:
    tasks, gpus = chosen["tasks"], chosen["gpus"]
    if facts.kind == "training" and gpus and tasks > gpus:
        raise ValueError(
            f"training {facts.row}: resources ask for {tasks} tasks and {gpus} gpus a node; valid: a GPU for each task"
        )
    if facts.kind != "training" and (tasks, chosen["nodes"]) != (1, 1):
        raise ValueError(
            f"{facts.kind} of {facts.row}: resources ask for {tasks} tasks on {chosen['nodes']} nodes; "
            "valid: one on one"
        )


def cpus_here(facts: Facts, grid: ResourcesSection) -> int | None:
    """The cores that the grid gives the cell with these facts on this machine; None where it doesn't say."""
    said = [layer.cpus for layer in _layers(facts, grid, None) if "cpus" in layer.model_fields_set]
    return said[-1] if said else None


def split_by(grid: ResourcesSection, profile: Profile | None = None) -> str:
    """Whether one job evaluates a training on all suites (``training``) or on one (``suite``)."""
    if profile is None or "split_by" in grid.evaluate.model_fields_set:
        return grid.evaluate.split_by
    return profile.evaluate.split_by


def shares_of(grid: ResourcesSection, suites: Iterable[str], profile: Profile | None = None) -> int:
    """How many jobs encode the corpora of an evaluation job on these suites; the grid's word goes before the profile's.

    Returns:
        1 where the job encodes them itself.
    """
    said = profile is None or "shares" in grid.evaluate.model_fields_set
    shares = grid.evaluate.shares if said or profile is None else profile.evaluate.shares
    return shares if isinstance(shares, int) else max(shares.get(one, shares.get("default", 1)) for one in suites)


def _layers(facts: Facts, grid: ResourcesSection, profile: Profile | None) -> Iterable[Need]:
    for source in (profile, grid):
        if source is not None:
            yield {"training": source.train, "evaluation": source.evaluate, "analysis": source.analyze}[facts.kind]
            yield from (rule for rule in source.rules if rule.when.holds(facts))
