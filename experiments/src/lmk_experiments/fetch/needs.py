"""What the cells of a grid need from elsewhere: models, training data, data of MTEB's tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from lmk_eval.suites import Task
from lmk_experiments.datasets import is_data_reference, parse_reference
from lmk_experiments.grids import Plan
from lmk_experiments.grids.identity import is_local

MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""Of a model's repository: its configuration, weights and tokenizer. Nothing that is a program."""


class ModelMissing(ValueError):
    """A model of the hub is not in this machine's cache; the message names the command that brings it."""


@dataclass
class GridNeeds:
    """What is needed, each once, in the order of the plan.

    Attributes:
        models: (name on the hub, revision) of the encoders that trainings start from and analyses look at.
        data: names of published training data.
        tasks: tasks of MTEB, by what of them is scored.
    """

    models: list[tuple[str, str | None]] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)


def grid_needs(plans: Sequence[Plan]) -> GridNeeds:
    """What one grid, or several together, need."""
    models: dict[tuple[str, str | None], None] = {}
    data: dict[str, None] = {}
    tasks: dict[tuple[object, ...], Task] = {}
    for plan in plans:
        for planned in (*plan.pretrainings, *plan.trainings):
            model = planned.config.model
            if not is_local(model.path):
                models[model.path, model.revision] = None
            references = [*_paths(planned.config.data), getattr(planned.config.data, "validation", None)]
            data.update((parse_reference(one)[0], None) for one in references if one and is_data_reference(one))
        for _, evaluation in plan.evaluations:
            for task in evaluation.suite.tasks:
                if task.mteb is not None:
                    tasks.setdefault((task.mteb, task.split, task.subsets), task)
        for analysis in plan.analyses:
            models.update((one, None) for one in analysis.models if not is_local(one[0]))
            data.update((parse_reference(one)[0], None) for one in analysis.references if is_data_reference(one))
            for task in analysis.tasks:
                tasks.setdefault((task.mteb, task.split, task.subsets), task)
    return GridNeeds(list(models), list(data), list(tasks.values()))


def require_model(name: str, revision: str | None) -> None:
    """See that a model of the hub is in the cache, where nothing can be fetched.

    Raises:
        ModelMissing: it is not, and this machine was told that it is offline.
    """
    if is_local(name) or not any(os.environ.get(key) in ("1", "true", "True") for key in _OFFLINE):
        return
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.constants import HF_HUB_CACHE

    if not isinstance(try_to_load_from_cache(name, "config.json", revision=revision or "main"), str):
        raise ModelMissing(
            f"the model {name} is not on this machine ({HF_HUB_CACHE}), which has no network: "
            "fetch it where there is one, with `lmk fetch GRID` and the same HF_HOME"
        )


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def _paths(data: object) -> list[str]:
    """The files or references of a training's data."""
    found = getattr(data, "paths", None)
    return [str(one) for one in (found if found is not None else getattr(data, "train", ()))]
