"""Read the entries of ``analyze:``: every key checked, every path made absolute."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lmk_eval.suites import shipped_suite, shipped_suites
from lmk_experiments.configs import REQUIRED, ConfigError, Layers, Problem, explain, in_yaml, validate
from lmk_experiments.configs.errors import Path as KeyPath
from lmk_experiments.grids.analyses.entries import ENTRIES, Entry, LengthsEntry
from lmk_experiments.grids.local import check_model_folder, check_suite_folder
from lmk_experiments.grids.paths import localized
from lmk_experiments.grids.schema import View, checked_name

Where = Callable[[KeyPath, str], Problem]


def load_entries(layers: Layers) -> list[Entry]:
    """The entries of a grid.

    Raises:
        ConfigError: with every problem found, each naming file, line, key and the valid values.
    """
    raw = layers.value.get("analyze") or []
    if not isinstance(raw, list):
        message = f"a list of analyses is expected, found {in_yaml(raw)}"
        raise ConfigError([layers.problem(("analyze",), message)])
    found: list[Entry] = []
    problems: list[Problem] = []
    for index, value in enumerate(raw):
        try:
            found.append(_entry(layers, value, index))
        except ConfigError as error:
            problems += error.problems
    names = [one.name for one in found]
    problems += [
        layers.problem(("analyze", index, "name"), f"two analyses are called {name!r}; give each a name of its own")
        for index, name in enumerate(names)
        if name in names[:index]
    ]
    if problems:
        raise ConfigError(problems)
    return found


def _entry(layers: Layers, value: Any, index: int) -> Entry:
    at: KeyPath = ("analyze", index)
    if not isinstance(value, dict):
        raise ConfigError([layers.problem(at, f"a mapping of keys to values is expected, found {in_yaml(value)}")])
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in ENTRIES:
        message = REQUIRED if "kind" not in value else f"no analysis is called {in_yaml(kind)}"
        raise ConfigError([layers.problem((*at, "kind"), f"{message}; {explain(str(kind), list(ENTRIES))}")])
    value = _with_task(layers, value, at)
    _localize(layers, value, at)

    def where(path: KeyPath, message: str) -> Problem:
        return layers.problem((*at, *path), message)

    held = {key: [one] if key == "of" and isinstance(one, str) else one for key, one in value.items()}
    entry = validate(ENTRIES[kind], {"name": kind, **held}, where)
    try:
        checked_name(entry.name)
    except ValueError as error:
        raise ConfigError([where(("name",), str(error))]) from None
    views = tuple(_view(one, number, where) for number, one in enumerate(getattr(entry, "of", ())))
    return entry.model_copy(update={"of": views}) if views else entry


def _with_task(layers: Layers, value: dict[str, Any], at: KeyPath) -> dict[str, Any]:
    """``value`` with ``{suite: NAME}`` replaced by the task of that suite, in place: origins of its keys stay."""
    texts = value.get("texts")
    held = texts if isinstance(texts, dict) and "suite" not in texts and "mteb" not in texts else {"": texts}
    for name, one in held.items():
        here = (*at, "texts", *([name] if name else []))
        if isinstance(one, dict) and "suite" in one:
            task = _task_of(layers, one, here)
            if name:
                held[name] = task
            else:
                value["texts"] = task
        elif isinstance(one, dict) and "mteb" not in one and value.get("kind") != "lengths":
            message = "a path, {suite: NAME} or a task of MTEB is expected, such as {name: docs, mteb: NFCorpus}"
            raise ConfigError([layers.problem(here, message)])
    return value


def _task_of(layers: Layers, value: dict[str, Any], at: KeyPath) -> dict[str, Any]:
    """The one task that ``{suite: NAME, task: NAME}`` names; a suite of one task needs no name of it."""
    name = value["suite"]
    if unknown := next((key for key in value if key not in ("suite", "task")), None):
        raise ConfigError([layers.problem((*at, unknown), f"unknown key; {explain(unknown, ['suite', 'task'])}")])
    if name not in shipped_suites():
        message = f"no suite is called {in_yaml(name)}; {explain(name, shipped_suites())}"
        raise ConfigError([layers.problem((*at, "suite"), message)])
    tasks = {task.name: task for task in shipped_suite(name).tasks}
    chosen = value.get("task", next(iter(tasks)) if len(tasks) == 1 else None)
    if chosen not in tasks:
        said = f"suite {name!r} has several tasks" if chosen is None else f"suite {name!r} has no task {chosen!r}"
        raise ConfigError([layers.problem((*at, "task"), f"{said}; {explain(str(chosen), tasks)}")])
    return tasks[chosen].model_dump(mode="json", exclude_none=True)


def _view(value: Any, number: int, where: Where) -> View:
    """A name or a pattern is a view of these rows as they were trained."""
    as_mapping = {"of": value} if isinstance(value, str) else value
    if not isinstance(as_mapping, dict):
        raise ConfigError([where(("of", number), f"a row's name or a view is expected, found {in_yaml(value)}")])
    return validate(View, as_mapping, lambda path, message: where(("of", number, *path), message))


def _localize(layers: Layers, value: dict[str, Any], at: KeyPath) -> None:
    problems = []
    for path, check, is_model in _paths(value):
        try:
            found = localized(layers, (*at, *path), always=not is_model)
            if found is not None:
                check(found)
        except (OSError, ValueError) as error:
            message = error.problems[0].message if isinstance(error, ConfigError) else str(error)
            problems.append(layers.problem((*at, *path), message))
    if problems:
        raise ConfigError(problems)


def _paths(value: dict[str, Any]) -> Iterable[tuple[KeyPath, Callable[[Path], None], bool]]:
    """The places of paths in an entry, what each has to lead to, and whether a plain name is a model of the hub."""
    texts = value.get("texts")
    if isinstance(texts, str):
        yield ("texts",), _check_texts, False
    elif isinstance(texts, dict) and value.get("kind") == "lengths" and "mteb" not in texts:
        for name, one in texts.items():
            if isinstance(one, str):
                yield ("texts", name), _check_texts, False
    if isinstance(value.get("folder"), str):
        split = value.get("split", "test")
        yield ("folder",), lambda folder: check_suite_folder(folder, str(split)), False
    if isinstance(value.get("tokenizer"), str):
        yield ("tokenizer",), lambda _: None, True
    models = value.get("models")
    for number, one in enumerate(models if isinstance(models, list) else []):
        if isinstance(one, dict) and isinstance(one.get("path"), str):
            yield ("models", number, "path"), check_model_folder, True


def _check_texts(path: Path) -> None:
    if path.is_file() and not path.stat().st_size:
        raise ValueError(f"{path} is empty; a file of texts is expected")


def texts_of(entry: Entry) -> dict[str, Any]:
    """The sources of an entry's texts by the names that a plot gives them; none where it reads no texts."""
    texts = getattr(entry, "texts", None)
    if isinstance(entry, LengthsEntry) and isinstance(texts, dict):
        return texts
    return {} if texts is None else {name_of(texts): texts}


def name_of(source: Any) -> str:
    """What a plot calls a source of texts that has no name of its own."""
    if not isinstance(source, str):
        return source.name
    return Path(source.partition(":")[2] or source).name
