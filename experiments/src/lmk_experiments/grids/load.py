"""Read a grid file into trainings and views that are whole and valid."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmk_experiments.configs import ConfigError, Document, Layers, explain, find_file, load_document, validate
from lmk_experiments.configs.document import parse_assignment
from lmk_experiments.configs.errors import Path as KeyPath
from lmk_experiments.grids.expand import combinations, substitute
from lmk_experiments.grids.paths import localize, localize_suites
from lmk_experiments.grids.schema import ROW_KEYS, GridFile, checked_name
from lmk_train.config import TrainConfig

TRAINING_KEYS = tuple(TrainConfig.model_fields)


@dataclass(frozen=True)
class TrainRow:
    """One training row after ``for``: a name and a complete configuration (the seed is still to be set)."""

    name: str
    baseline: bool
    variables: dict[str, Any]
    config: TrainConfig
    at: KeyPath


@dataclass(frozen=True)
class Grid:
    """A grid file, read and checked."""

    file: GridFile
    document: Document
    rows: list[TrainRow] = field(default_factory=list)


def load_grid_file(name: str, assignments: tuple[str, ...] = ()) -> Grid:
    """Read the grid ``name`` (a shipped name or a path).

    Args:
        assignments: ``--set`` values; keys of the grid file change the grid, all others every training.

    Raises:
        ConfigError: with every problem found, each naming file, line, key and the valid values.
    """
    path = find_file(name, "grids")
    document = load_document(path, _shown(path))
    top, below = _split(assignments)
    layers = Layers()
    layers.add(document.value, document)
    for text in top:
        layers.add_assignment(text)
    localize_suites(layers)
    file = validate(GridFile, layers.value, layers.problem)
    rows: list[TrainRow] = []
    problems = []
    for index in range(len(file.train)):
        try:
            rows += _train_rows(file, document, index, below)
        except ConfigError as error:
            problems += error.problems
    problems += [
        document.problem((*row.at, "row"), f"row {row.name!r} stands here twice")
        for position, row in enumerate(rows)
        if row.name in {earlier.name for earlier in rows[:position]}
    ]
    if problems:
        raise ConfigError(problems)
    return Grid(file, document, rows)


def load_training_file(name: str, assignments: tuple[str, ...] = ()) -> TrainConfig:
    """Read one complete training: a preset by name, or a YAML file.

    Raises:
        ConfigError: as ``load_grid_file``.
    """
    path = find_file(name, "presets")
    document = load_document(path, _shown(path))
    layers = Layers()
    _add_bases(layers, document.value.get("base", []), document, ("base",))
    layers.add({key: value for key, value in document.value.items() if key != "base"}, document)
    for text in assignments:
        layers.add_assignment(text)
    localize(layers)
    return validate(TrainConfig, layers.value, layers.problem)


def _train_rows(file: GridFile, document: Document, index: int, assignments: tuple[str, ...]) -> list[TrainRow]:
    raw: dict[str, Any] = file.train[index]
    at: KeyPath = ("train", index)
    problems = [
        document.problem((*at, key), f"unknown key; {explain(key, [*ROW_KEYS, *TRAINING_KEYS])}")
        for key in raw
        if key not in ROW_KEYS and key not in TRAINING_KEYS
    ]
    if "row" not in raw:
        problems.append(document.problem((*at, "row"), "this key is required and is not there"))
    if not isinstance(raw.get("baseline", False), bool):
        problems.append(document.problem((*at, "baseline"), f"true or false is expected, found {raw['baseline']!r}"))
    if problems:
        raise ConfigError(problems)
    rows = []
    try:
        for variables in combinations(raw.get("for") or {}, raw.get("when") or {}):
            filled = substitute({key: value for key, value in raw.items() if key not in ("for", "when")}, variables)
            name = checked_name(str(filled["row"]))
            rows.append((name, variables, filled))
    except ValueError as error:
        raise ConfigError([document.problem(at, str(error))]) from None
    return [
        TrainRow(
            name,
            raw.get("baseline", False),
            variables,
            _config(file, document, at, filled, assignments),
            at,
        )
        for name, variables, filled in rows
    ]


def _config(
    file: GridFile, document: Document, at: KeyPath, filled: dict[str, Any], assignments: tuple[str, ...]
) -> TrainConfig:
    layers = Layers()
    _add_bases(layers, list(file.base), document, ("base",))
    _add_bases(layers, filled.get("base", []), document, (*at, "base"))
    layers.add({key: value for key, value in filled.items() if key in TRAINING_KEYS}, document, at)
    for text in assignments:
        layers.add_assignment(text)
    localize(layers)
    return validate(TrainConfig, layers.value, layers.problem)


def _add_bases(layers: Layers, bases: list[str], document: Document, at: KeyPath) -> None:
    for position, name in enumerate(bases):
        kind = name.split("/")[0] if name.split("/")[0] in ("presets", "models") else "presets"
        try:
            path = find_file(name, kind, beside=document.folder)
        except ConfigError as error:
            raise ConfigError(
                [document.problem((*at, position), problem.message) for problem in error.problems]
            ) from None
        base = load_document(path, _shown(path))
        layers.add(base.value, base)


def _split(assignments: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    grid_keys = set(GridFile.model_fields) - {"train"}
    top = [text for text in assignments if parse_assignment(text)[0][0] in grid_keys]
    return top, tuple(text for text in assignments if text not in top)


def _shown(path: Path) -> str:
    """How messages name a file: relative to here where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
