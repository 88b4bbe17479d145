"""Paths in YAML files: relative ones count from the file that says them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from lmk_eval.suites import LOCAL_KINDS
from lmk_experiments.builders import BUILDERS, BuilderError, is_builtin_reference, locate
from lmk_experiments.configs import ConfigError, Layers, explain
from lmk_experiments.configs.errors import Path as KeyPath
from lmk_experiments.datasets import data_identity, is_data_reference
from lmk_experiments.grids.identity import is_local
from lmk_experiments.grids.local import (
    check_labels_folder,
    check_model_folder,
    check_rows,
    check_suite_folder,
    check_text_file,
    check_texts_file,
)

_CHECKS: dict[str, Callable[[Path, str], None]] = {
    "folder": check_suite_folder,
    "labels": check_labels_folder,
    "passkey": check_text_file,
    "needle": check_text_file,
}
"""What the own files of a task must be, by the key that names them."""


def localize(layers: Layers) -> None:
    """Make the paths of a training absolute, in place.

    Raises:
        ConfigError: a file that does not exist or cannot be what is asked for, built data that nobody builds, or
            published data that is not declared.
    """
    problems = []
    # The rows of a pre-training are texts alone, in files of any name.
    check = check_texts_file if "method" in layers.value else check_rows
    for path in _training_paths(layers.value):
        try:
            found = localized(layers, path, always=path[0] == "data")
            if found is not None and path[0] == "data":
                check(found)
            elif found is not None:
                check_model_folder(found)
        except (OSError, ValueError) as error:
            problems.append(layers.problem(path, _without_place(error)))
    if problems:
        raise ConfigError(problems)


def localize_suites(layers: Layers) -> None:
    """Make the paths of the suites written out in a grid absolute, in place.

    Raises:
        ConfigError: as ``localize``.
    """
    problems = []
    evaluate = layers.value.get("evaluate")
    suites = evaluate.get("suites") if isinstance(evaluate, dict) else None
    for path in _suite_paths(suites if isinstance(suites, list) else []):
        try:
            found = localized(layers, path, always=True)
            if found is not None:
                _CHECKS[str(path[-1])](found, _split(layers, path))
        except (OSError, ValueError) as error:
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
            paths += [place for index, entry in enumerate(files) for place in _places(entry, ("data", "train", index))]
        if data.get("validation") is not None:
            paths.append(("data", "validation"))
    if isinstance(model, dict) and "path" in model:
        paths.append(("model", "path"))
    return paths


def _places(entry: Any, at: KeyPath) -> list[KeyPath]:
    """Where the paths of a data set stand: itself, or its key ``path``, which may be a list."""
    path = entry.get("path") if isinstance(entry, dict) else None
    if isinstance(path, list):
        return [(*at, "path", index) for index in range(len(path))]
    return [(*at, "path")] if isinstance(entry, dict) else [at]


def _suite_paths(suites: list[Any]) -> list[KeyPath]:
    return [
        ("evaluate", "suites", index, "tasks", position, kind)
        for index, suite in enumerate(suites)
        if isinstance(suite, dict) and isinstance(suite.get("tasks"), list)
        for position, task in enumerate(suite["tasks"])
        if isinstance(task, dict)
        for kind in LOCAL_KINDS
        if kind in task
    ]


def _split(layers: Layers, path: KeyPath) -> str:
    """The split of the task whose own files stand at ``path``."""
    split = _holder(layers, path).get("split")
    return split if isinstance(split, str) else "test"


def _holder(layers: Layers, path: KeyPath) -> Any:
    holder: Any = layers.value
    for part in path[:-1]:
        holder = holder[part]
    return holder


def _check_built(reference: str) -> None:
    """See that some builder makes what ``reference`` names."""
    name, _, inside = reference.removeprefix("built:").partition("/")
    if name not in BUILDERS:
        raise ValueError(f"nothing builds {name!r}; {explain(name, sorted(BUILDERS))}")
    try:
        locate(reference, Path())
    except BuilderError:
        if ".." in PurePosixPath(inside).parts:
            raise
        outputs = [f"built:{name}/{output}" for output in BUILDERS[name].outputs]
        raise ValueError(f"built:{name} does not make {inside!r}; {explain(reference, outputs)}") from None


def localized(layers: Layers, path: KeyPath, *, always: bool) -> Path | None:
    """Replace the path at ``path`` by an absolute one and return it; ``None`` where it is no path of this machine.

    Without ``always`` a plain name is a model on a hub.

    Raises:
        ConfigError, OSError, ValueError: as ``localize``.
    """
    holder = _holder(layers, path)
    text = holder.get(path[-1]) if isinstance(holder, dict) else holder[path[-1]]
    if not isinstance(text, str):
        return None
    if is_builtin_reference(text):
        _check_built(text)
        return None
    if is_data_reference(text):
        data_identity(text)
        return None
    if always and "://" in text:  # data that is streamed from elsewhere
        return None
    if not always and not is_local(text):
        if (layers.origin(path).folder / text).is_dir():
            raise FileNotFoundError(
                f"is it the folder beside this file, or a model on the hub? Write ./{text} for the folder"
            )
        return None
    absolute = (layers.origin(path).folder / Path(text).expanduser()).resolve()
    if not absolute.exists():
        raise FileNotFoundError(f"no such file or folder: {absolute}")
    holder[path[-1]] = str(absolute)
    return absolute
