"""What one cell asks of the machine: a function of what the cell is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lmk_experiments.grids.needs import Facts, Need, ResourcesSection
from lmk_experiments.profiles.schema import Profile
from lmk_slurm import Resources

_FIELDS = ("nodes", "tasks", "gpus", "cpus", "memory_gb", "hours")


def resources_of(facts: Facts, grid: ResourcesSection, profile: Profile | None = None) -> Resources:
    """What the cell with these facts asks.

    Later ones win, key by key: the defaults, the profile's ``train`` or ``evaluate``, the profile's rules, the grid's
    ``train`` or ``evaluate``, the grid's rules.
    """
    chosen: dict[str, Any] = {name: getattr(Need(), name) for name in _FIELDS}
    for layer in _layers(facts, grid, profile):
        chosen |= {name: value for name in layer.model_fields_set if (value := getattr(layer, name, None)) is not None}
    return Resources(**{name: chosen[name] for name in _FIELDS})


def split_by(grid: ResourcesSection, profile: Profile | None = None) -> str:
    """Whether one job evaluates a training on all suites (``training``) or on one (``suite``)."""
    if profile is None or "split_by" in grid.evaluate.model_fields_set:
        return grid.evaluate.split_by
    return profile.evaluate.split_by


def _layers(facts: Facts, grid: ResourcesSection, profile: Profile | None) -> Iterable[Need]:
    for source in (profile, grid):
        if source is not None:
            yield source.train if facts.kind == "training" else source.evaluate
            yield from (rule for rule in source.rules if rule.when.holds(facts))
