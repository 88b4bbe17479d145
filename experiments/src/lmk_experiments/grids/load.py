"""Read a grid file into trainings and views that are whole and valid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lmk_experiments.configs import (
    REQUIRED,
    ConfigError,
    Document,
    Layers,
    Problem,
    explain,
    find_file,
    in_yaml,
    load_document,
    validate,
)
from lmk_experiments.configs.document import parse_assignment
from lmk_experiments.configs.errors import Path as KeyPath
from lmk_experiments.grids.analyses.entries import Entry
from lmk_experiments.grids.assumed import Assumption, of_a_grid, read_assumed
from lmk_experiments.grids.bases import Extras, add_bases, read_pretraining, shown
from lmk_experiments.grids.expand import as_text, combinations, substitute, wrong_loops
from lmk_experiments.grids.paths import localize, localize_suites
from lmk_experiments.grids.schema import ROW_KEYS, GridFile, checked_name
from lmk_experiments.grids.size import ModelSize
from lmk_train.config import PretrainConfig, TrainConfig

TRAINING_KEYS = tuple(TrainConfig.model_fields)

USE_SEEDS = "a grid trains every row once for each of its `seeds`: write these, for example seeds: [0, 1, 2]"


@dataclass(frozen=True)
class TrainRow:
    """One training row after ``for``: a name and a complete configuration (the seed is still to be set)."""

    name: str
    baseline: bool
    variables: dict[str, Any]
    config: TrainConfig
    at: KeyPath
    pretraining: PretrainConfig | None = None
    """What comes first, where ``config.init`` says so (the seed is still to be set)."""
    size: ModelSize | None = None
    """How large the model is, where its file says so."""


@dataclass(frozen=True)
class Grid:
    """A grid file, read and checked."""

    file: GridFile
    document: Document
    rows: list[TrainRow] = field(default_factory=list)
    analyses: list[Entry] = field(default_factory=list)
    """What is analysed, paths absolute."""
    assumed: list[Assumption] = field(default_factory=list)
    """What the grid and the files under it decided where their source leaves it open."""


def load_grid_file(name: str, assignments: tuple[str, ...] = ()) -> Grid:
    """Read the grid ``name`` (a shipped name or a path).

    Args:
        assignments: ``--set`` values; keys of the grid file change the grid, all others every training.

    Raises:
        ConfigError: with every problem found, each naming file, line, key and the valid values.
    """
    from lmk_experiments.grids.analyses.load import load_entries

    path = find_file(name, "grids")
    document = load_document(path, shown(path))
    top, below = _split(assignments)
    layers = Layers()
    layers.add(document.value, document)
    for text in top:
        layers.add_assignment(text)
    localize_suites(layers)
    file = _checked(layers)
    rows: list[TrainRow] = []
    problems = []
    extras = Extras()
    entries: list[Entry] = []
    try:
        entries = load_entries(layers)
    except ConfigError as error:
        problems += error.problems
    for index in range(len(file.train)):
        try:
            rows += _train_rows(file, document, index, below, extras)
        except ConfigError as error:
            problems += error.problems
    problems += [
        document.problem((*row.at, "row"), f"row {row.name!r} stands here twice")
        for position, row in enumerate(rows)
        if row.name in {earlier.name for earlier in rows[:position]}
    ]
    assumed, wrong = read_assumed(document, of_a_grid(file, [row.name for row in rows], entries))
    if problems := _each_once(problems + wrong):
        raise ConfigError(problems)
    return Grid(file, document, rows, entries, [*assumed, *extras.assumed.values()])


def _checked(layers: Layers) -> GridFile:
    """The file itself. Without ``analyze`` it must train and evaluate; with it, it need not do either.

    Raises:
        ConfigError: all of its problems.
    """
    problems: list[Problem] = []
    needed = [] if layers.value.get("analyze") else ["train", "evaluate"]
    if "evaluate" in layers.value and "train" not in needed:
        needed.append("train")
    if layers.value.get("evaluate", {}) is None:
        problems.append(layers.problem(("evaluate",), "a mapping of keys to values is expected, found null"))
    for key in needed:
        if key not in layers.value:
            problems.append(layers.problem((key,), REQUIRED))
        elif layers.value[key] == []:
            problems.append(layers.problem((key,), "at least 1 item is expected, found 0"))
    try:
        file = validate(GridFile, layers.value, layers.problem)
    except ConfigError as error:
        raise ConfigError([*error.problems, *problems]) from None
    if problems:
        raise ConfigError(problems)
    return file


def _train_rows(
    file: GridFile, document: Document, index: int, assignments: tuple[str, ...], extras: Extras
) -> list[TrainRow]:
    raw: dict[str, Any] = file.train[index]
    at: KeyPath = ("train", index)
    if problems := [document.problem((*at, *place), message) for place, message in _wrong_keys(raw)]:
        raise ConfigError(problems)
    rows = []
    try:
        for variables in combinations(raw.get("for") or {}, raw.get("when") or {}):
            filled = substitute({key: value for key, value in raw.items() if key not in ("for", "when")}, variables)
            rows.append((checked_name(as_text(filled["row"])), variables, filled))
    except ValueError as error:
        raise ConfigError([document.problem(at, str(error))]) from None
    if not rows:
        message = "no row is left: no combination of the values in 'for' is let through"
        raise ConfigError([document.problem((*at, "when"), message)])
    found = []
    for name, variables, filled in rows:
        layers = Layers()
        add_bases(layers, file.base, document, ("base",), extras)
        add_bases(layers, filled.get("base", []), document, (*at, "base"), extras)
        layers.add({key: value for key, value in filled.items() if key in TRAINING_KEYS}, document, at)
        for text in assignments:
            layers.add_assignment(text)
        localize(layers)
        config = validate(TrainConfig, layers.value, layers.problem)
        pretraining = None if config.init is None else read_pretraining(config.init, layers, extras)
        size = extras.size_of(layers)
        found.append(TrainRow(name, raw.get("baseline", False), variables, config, at, pretraining, size))
    return found


def _wrong_keys(raw: dict[str, Any]) -> list[tuple[KeyPath, str]]:
    """What is wrong with a row's own keys: the key's path in it, and what is to be said."""
    wrong: list[tuple[KeyPath, str]] = [
        ((key,), f"unknown key; {explain(key, [*ROW_KEYS, *TRAINING_KEYS])}")
        for key in raw
        if key not in ROW_KEYS and key not in TRAINING_KEYS
    ]
    if "seed" in raw:
        wrong.append((("seed",), USE_SEEDS))
    if "row" not in raw:
        wrong.append((("row",), REQUIRED))
    elif not isinstance(raw["row"], str):
        # YAML reads on, no and nothing at all as true, false and null.
        quotes = "" if isinstance(raw["row"], list | dict) else ": put it in quotes"
        wrong.append((("row",), f"a name is text, found {in_yaml(raw['row'])}{quotes}"))
    if not isinstance(raw.get("baseline", False), bool):
        wrong.append((("baseline",), f"true or false is expected, found {in_yaml(raw['baseline'])}"))
    return wrong + wrong_loops(raw)


def _each_once(problems: list[Problem]) -> list[Problem]:
    """A key that every row lacks is told once, at the first of them."""
    kept: dict[tuple[object, ...], Problem] = {}
    for one in problems:
        line = None if one.message == REQUIRED else one.line
        kept.setdefault((one.file, line, one.key, one.message), one)
    return list(kept.values())


def _split(assignments: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    for text in assignments:
        if parse_assignment(text)[0] == ("seed",):
            raise ConfigError([Problem(f"--set {text}", None, "seed", USE_SEEDS)])
    grid_keys = set(GridFile.model_fields) - {"train"}
    top = [text for text in assignments if parse_assignment(text)[0][0] in grid_keys]
    return top, tuple(text for text in assignments if text not in top)
