"""What jobs ask of the machine, and for which cells. Never part of an identity."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from lmk_experiments.configs import Section

Count = Annotated[int, Field(ge=1, strict=True)]


@dataclass(frozen=True)
class Facts:
    """What the needs of a cell may depend on."""

    kind: Literal["training", "evaluation", "analysis"]
    row: str
    """The training's row in its grid; of an analysis, its name."""
    model: str
    """The encoder, as the configuration names it."""
    max_length: int
    """The most tokens of a text."""
    devices: int = 1
    """Of a training: `runtime.devices`, its processes a node where the resources do not say."""
    nodes: int = 1
    """Of a training: `runtime.nodes`, the same."""


class Need(Section):
    """What one job asks of the machine."""

    nodes: int = Field(default=1, ge=1)
    """Machines; of a training, `runtime.nodes` where it is left out."""
    tasks: int = Field(default=1, ge=1)
    """Processes a node. Left out, a training has one a GPU, or `runtime.devices` where it has no GPU."""
    gpus: int = Field(default=0, ge=0)
    """GPUs a node."""
    cpus: int = Field(default=1, ge=1)
    """Processor cores a process."""
    memory_gb: int | None = Field(default=None, ge=1)
    """Memory a node, in GB."""
    hours: float = Field(default=1.0, gt=0)
    """Longest run time, in hours."""


class EvaluateNeed(Need):
    """What one evaluation job asks of the machine."""

    split_by: Literal["training", "suite"] = "training"
    """`training`: one job reads a trained model in all ways on all suites; `suite`: one job for each suite."""
    shares: Count | dict[str, Count] = 1
    """Jobs that encode the corpora of one evaluation job together, each a part, before that job scores: one number, or
    one a suite with `default` (a job of several suites takes the largest). 1: the job encodes them itself."""


class When(Section):
    """Which cells; every key that is given must hold."""

    kind: Literal["training", "evaluation", "analysis"] | None = None
    """Trainings only, evaluations only, or analyses only."""
    row: str | None = None
    """The training row's name, or a pattern such as `lmk-*`."""
    model: str | None = None
    """The encoder's name or path, or a pattern such as `*multilingual*`."""
    longer_than: int | None = Field(default=None, ge=0)
    """Texts of more tokens than this."""

    def holds(self, facts: Facts) -> bool:
        """Whether a cell with these facts is meant."""
        return (
            self.kind in (None, facts.kind)
            and (self.row is None or fnmatch.fnmatchcase(facts.row, self.row))
            and (self.model is None or fnmatch.fnmatchcase(facts.model, self.model))
            and (self.longer_than is None or facts.max_length > self.longer_than)
        )


class Rule(Need):
    """What some cells ask instead: the keys that are given replace the others'."""

    when: When
    """Which cells."""


class ResourcesSection(Section):
    """What trainings, evaluations and analyses ask of the machine; never part of an identity."""

    train: Need = Need()
    """One training."""
    evaluate: EvaluateNeed = EvaluateNeed()
    """One evaluation job."""
    analyze: Need = Need()
    """One analysis."""
    rules: tuple[Rule, ...] = ()
    """What some cells ask instead; later ones win."""
