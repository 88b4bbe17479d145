"""What a paper leaves open and a file decides: ``assumed: {key: reason}``, each key one that the file can set."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any

from pydantic import BaseModel

from lmk_core.pooling import PoolingConfig
from lmk_eval.suites import Suite
from lmk_experiments.configs import Document, Problem, explain, in_yaml
from lmk_experiments.grids.analyses.entries import Entry
from lmk_experiments.grids.schema import GridFile
from lmk_train.config import PretrainConfig, TrainConfig


@dataclass(frozen=True)
class Assumption:
    """One decision: the key, why it was decided so, and the file that says it."""

    key: str
    reason: str
    file: str


def read_assumed(document: Document, valid: Callable[[str], str | None]) -> tuple[list[Assumption], list[Problem]]:
    """The assumptions of a file, and what is wrong with them.

    Args:
        valid: what is wrong with a key, or ``None``.
    """
    raw = document.value.get("assumed")
    if raw is None:
        return [], []
    if not isinstance(raw, dict):
        return [], [document.problem(("assumed",), f"a mapping of keys to reasons is expected, found {in_yaml(raw)}")]
    found, problems = [], []
    for key, reason in raw.items():
        wrong = valid(str(key))
        if wrong is None and not (isinstance(reason, str) and reason.strip()):
            wrong = f"the reason is expected here as text, found {in_yaml(reason)}"
        if wrong is not None:
            problems.append(document.problem(("assumed", key), wrong))
        else:
            found.append(Assumption(str(key), " ".join(reason.split()), document.file))
    return found, problems


def of_a_training(key: str) -> str | None:
    """What is wrong with ``key`` as one of a fine-tune, or ``None``."""
    return _wrong(key.split("."), TrainConfig)


def of_a_pretraining(key: str) -> str | None:
    """What is wrong with ``key`` as one of a pre-training, or ``None``."""
    return _wrong(key.split("."), PretrainConfig)


def of_a_grid(file: GridFile, rows: list[str], analyses: Sequence[Entry] = ()) -> Callable[[str], str | None]:
    """What is wrong with a key of this grid: of the file, of a training, ``train.ROW``, ``evaluate.suites.SUITE``, or
    ``analyze.NAME.KEY``."""
    listed = () if file.evaluate is None else file.evaluate.suites
    suites = [suite.name if isinstance(suite, Suite) else suite for suite in listed]
    entries = {entry.name: type(entry) for entry in analyses}
    named = {
        ("train",): rows,
        ("evaluate", "suites"): suites,
        ("evaluate", "max_length"): ["default", *suites],
    }

    def wrong(key: str) -> str | None:
        if key.startswith("analyze."):
            name, _, rest = key.removeprefix("analyze.").partition(".")
            if name not in entries:
                return f"{name!r} is not there; {explain(name, entries)}"
            return _wrong(rest.split("."), entries[name]) if rest else None
        for place, names in named.items():
            prefix = ".".join(place) + "."
            if key.startswith(prefix):
                name = key.removeprefix(prefix)
                return None if name in names else f"{name!r} is not there; {explain(name, names)}"
        path = key.split(".")
        if path[0] in GridFile.model_fields or path[0] not in TrainConfig.model_fields:
            return _wrong(path, GridFile, TrainConfig)
        return _wrong(path, TrainConfig)

    return wrong


def _wrong(path: list[str], *models: Any) -> str | None:
    """Walk ``path`` down the fields of the models; the message about the first part that no field is called."""
    fields: dict[str, Any] = {}
    for model in models:
        fields |= _fields(model)
    if path[0] not in fields:
        return f"no key is called {path[0]!r}; {explain(path[0], fields)}"
    return _wrong(path[1:], fields[path[0]]) if path[1:] else None


def _fields(model: Any) -> Mapping[str, Any]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        return {name: _type(field.annotation) for name, field in model.model_fields.items() if name != "assumed"}
    if model is PoolingConfig:
        return dict.fromkeys((field.name for field in dataclasses.fields(PoolingConfig)), object)
    return {}


def _type(annotation: Any) -> Any:
    """The type without its marks and without ``None``."""
    members = [one for one in getattr(annotation, "__args__", ()) if one is not type(None)]
    if isinstance(annotation, UnionType) and len(members) == 1:
        annotation = members[0]
    return getattr(annotation, "__origin__", annotation)
