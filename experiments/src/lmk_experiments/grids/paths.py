"""Paths in YAML files: relative ones count from the file that says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmk_experiments.builders import BUILDERS, is_builtin_reference
from lmk_experiments.configs import ConfigError, Layers, explain
from lmk_experiments.configs.errors import Path as KeyPath
from lmk_experiments.datasets import data_identity, is_data_reference
from lmk_experiments.grids.identity import is_local


def localize(layers: Layers) -> None:
    """Make the paths of a training absolute, in place.

    Raises:
        ConfigError: a file that does not exist, built data that nobody builds, or published data that is not declared.
    """
    problems = []
    for path in _training_paths(layers.value):
        try:
            _absolute(layers, path, always=path[0] == "data")
        except (FileNotFoundError, ValueError) as error:
            problems.append(layers.problem(path, _without_place(error)))
    if problems:
        raise ConfigError(problems)


def localize_suites(layers: Layers) -> None:
    """Make the folders of the suites written out in a grid absolute, in place.

    Raises:
        ConfigError: as ``localize``.
    """
    problems = []
    evaluate = layers.value.get("evaluate")
    suites = evaluate.get("suites") if isinstance(evaluate, dict) else None
    for path in _suite_paths(suites if isinstance(suites, list) else []):
        try:
            _absolute(layers, path, always=True)
        except (FileNotFoundError, ValueError) as error:
            problems.append(layers.problem(path, _without_place(error)))
    if problems:
        raise ConfigError(problems)


def _without_place(error: Exception) -> str:
    """What is wrong; of a reference to data that is not declared, without the place of the declaration."""
    return error.problems[0].message if isinstance(error, ConfigError) else str(error)


def _training_paths(value: dict[str, Any]) -> list[KeyPath]:
    paths: list[KeyPath] = []
    data, model = value.get("data"), value.get("model")
    if isinstance(data, dict):
        files = data.get("train")
        if isinstance(files, list):
            paths += [("data", "train", index) for index in range(len(files))]
        if data.get("validation") is not None:
            paths.append(("data", "validation"))
    if isinstance(model, dict) and "path" in model:
        paths.append(("model", "path"))
    return paths


def _suite_paths(suites: list[Any]) -> list[KeyPath]:
    return [
        ("evaluate", "suites", index, "tasks", position, "folder")
        for index, suite in enumerate(suites)
        if isinstance(suite, dict) and isinstance(suite.get("tasks"), list)
        for position, task in enumerate(suite["tasks"])
        if isinstance(task, dict) and "folder" in task
    ]


def _absolute(layers: Layers, path: KeyPath, *, always: bool) -> None:
    """Replace the path at ``path`` by an absolute one. Without ``always`` a plain name is a model on a hub."""
    holder: Any = layers.value
    for part in path[:-1]:
        holder = holder[part]
    text = holder[path[-1]]
    if not isinstance(text, str):
        return
    if is_builtin_reference(text):
        name = text.removeprefix("built:").split("/")[0]
        if name not in BUILDERS:
            raise FileNotFoundError(f"nothing builds {name!r}; {explain(name, sorted(BUILDERS))}")
        return
    if is_data_reference(text):
        data_identity(text)
        return
    if not always and not is_local(text):
        if (layers.origin(path).folder / text).is_dir():
            raise FileNotFoundError(
                f"is it the folder beside this file, or a model on the hub? Write ./{text} for the folder"
            )
        return
    absolute = (layers.origin(path).folder / Path(text).expanduser()).resolve()
    if not absolute.exists():
        raise FileNotFoundError(f"no such file or folder: {absolute}")
    holder[path[-1]] = str(absolute)
