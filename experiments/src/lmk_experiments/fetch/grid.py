"""``lmk fetch``: look at everything that a grid needs, and bring it here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_eval.suites import Task
from lmk_experiments.datasets import PREFIX, DataSetMissing, data_path, load_data_set, mirrors_folder
from lmk_experiments.fetch.needs import GridNeeds


@dataclass(frozen=True)
class Fetched:
    """One thing that a grid needs.

    Attributes:
        kind: model, training data, or task.
        name: of the model, data set or task; of a task with its data set on the hub.
        gb: its size, in GB; None where it is not known.
        state: where it is, or how it came here.
        problem: why it is not here; empty where it is (or, when only looking, where it can be had).
    """

    kind: str
    name: str
    gb: float | None
    state: str
    problem: str = ""


def fetch(needs: GridNeeds, root: Path, *, only_look: bool, report: Callable[[str], None]) -> Iterator[Fetched]:
    """Bring each thing here, one after the other.

    Args:
        root: of the cells, whose ``data`` folder may hold data sets and mirrors.
        only_look: download nothing; say sizes and what can't be had.
        report: told a line before something that may take long.
    """
    yield from (_model(name, revision, only_look, report) for name, revision in needs.models)
    yield from (_data(name, root) for name in needs.data)
    for task in needs.tasks:
        yield from _task(task, mirrors_folder(root), only_look, report)


def _model(name: str, revision: str | None, only_look: bool, report: Callable[[str], None]) -> Fetched:
    from lmk_experiments.fetch.hub import fetch_model, look

    found = look("model", name, revision)
    access = "gated, access is given" if found.gated else "open"
    if found.problem or only_look:
        return Fetched("model", name, found.gb, "missing" if found.problem else access, found.problem)
    report(f"model {name} ({_size(found.gb)})")
    problem = fetch_model(name, revision)
    return Fetched("model", name, found.gb, "missing" if problem else f"in the cache ({access})", problem)


def _data(name: str, root: Path) -> Fetched:
    gb = load_data_set(name).gb
    try:
        return Fetched("training data", f"{PREFIX}{name}", gb, f"in {data_path(PREFIX + name, root)}")
    except DataSetMissing as missing:
        return Fetched("training data", f"{PREFIX}{name}", gb, "missing", str(missing))


def _task(task: Task, mirrors: Path | None, only_look: bool, report: Callable[[str], None]) -> Iterator[Fetched]:
    """Each of MTEB's tasks that a suite's task stands for. They are loaded as an evaluation will load them."""
    from lmk_eval.tasks import TaskDataError, open_task

    try:
        parts: list[Any] = open_task(task, mirrors)
    except TaskDataError as error:
        yield Fetched("task", str(task.mteb), None, "missing", str(error))
        return
    for part in parts:
        place = part.metadata.dataset["path"]
        if mirrors is not None and Path(place).is_relative_to(mirrors):
            yield Fetched("task", part.metadata.name, None, f"in {place}", _load(part))
        else:
            yield _from_the_hub(part, place, only_look, report)


def _from_the_hub(part: Any, place: str, only_look: bool, report: Callable[[str], None]) -> Fetched:
    from lmk_experiments.fetch.hub import look

    name = f"{part.metadata.name} ({place})"
    found = look("dataset", place, part.metadata.dataset.get("revision"))
    problem = found.problem
    if found.script:
        problem = (
            f"it is a program ({found.script}), which `datasets` does not run any more: put its data as files into "
            f"<root>/data/mteb/{part.metadata.name}"
        )
    if problem or only_look:
        state = "missing" if problem else "gated, access is given" if found.gated else "open"
        return Fetched("task", name, found.gb, state, problem)
    report(f"task {name} (its data set is of {_size(found.gb)}; only what is scored is fetched)")
    problem = _load(part)
    return Fetched("task", name, found.gb, "missing" if problem else "in the cache", problem)


def _load(part: Any) -> str:
    """Load a task's data, which also brings it into the cache; empty where that worked, else why not."""
    from lmk_eval.tasks import TaskDataError, load_task

    try:
        load_task(part)
    except (TaskDataError, OSError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}".split("\n")[0]
    part.unload_data()
    return ""


def _size(gb: float | None) -> str:
    return "unknown size" if gb is None else f"{gb:,.2f} GB"
