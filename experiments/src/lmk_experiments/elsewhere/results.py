"""A folder of MTEB's results as the scores of a suite: the splits, subsets and main scores that the suite says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmk_eval import EvaluationError, Suite, Task
from lmk_eval.evaluation.scores import RETRIEVAL_METRICS, Part, report

LOCAL_PREFIX = "local."
"""Before the name of a task of own files, as ``lmk evaluate`` has MTEB write its result."""
_NO_RESULTS = ("model_meta.json", "run_settings.json", "fingerprints.json")
_NAMED = 3


@dataclass(frozen=True)
class Elsewhere:
    """One row from elsewhere.

    Attributes:
        row: its name in the table.
        results: the folder that was read.
        scores: suite to task to metric to value, for the tasks that are there.
        missing: suite to what is not there: a task's name, with the subset where only that is missing.
    """

    row: str
    results: str
    scores: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)

    @property
    def counts(self) -> tuple[int, int]:
        """Tasks that are there, and tasks of all its suites."""
        found = sum(map(len, self.scores.values()))
        return found, found + sum(map(len, self.missing.values()))


def read_results(row: str, folder: Path, suites: Iterable[Suite]) -> Elsewhere:
    """Read a model's results: ``<Task>.json`` files as MTEB writes them, in ``folder`` or in the one folder below it.

    A task that has no file, or no result of a split or subset that the suite names, is missing: a mean over the rest
    would not be comparable.

    Raises:
        ValueError: no results are there, or a file is none of MTEB's; the message names the file and the key.
    """
    files = _files(folder)
    found, wanted = Elsewhere(row, str(folder)), []
    for suite in suites:
        scores, missing = found.scores.setdefault(suite.name, {}), found.missing.setdefault(suite.name, [])
        for task in suite.tasks:
            name = task.mteb or f"{LOCAL_PREFIX}{task.name}"
            wanted.append(f"{name}.json")
            path = files.get(name)
            parts, absent = _parts(path, task) if path is not None else ([], task.name)
            if absent:
                missing.append(absent)
            else:
                scores[task.name] = _report(path, task, parts)
    if not any(found.scores.values()):
        there = _some([path.name for path in files.values()])
        raise ValueError(f"{folder}: none of the grid's tasks is here; wanted: {_some(wanted)}; found: {there}")
    return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _files(folder: Path) -> dict[str, Path]:
    """Task name to its file."""
    holders = sorted({path.parent for path in folder.rglob("*.json") if path.name not in _NO_RESULTS})
    if folder in holders:
        holders = [folder]
    if not holders:
        raise ValueError(f"{folder}: no results of MTEB (<Task>.json) in this folder or below it")
    if len(holders) > 1:
        named = ", ".join(str(holder.relative_to(folder)) for holder in holders[:4])
        more = ", ..." if len(holders) > 4 else ""
        raise ValueError(f"{folder}: results stand in {len(holders)} folders below; name one: {named}{more}")
    return {path.stem: path for path in sorted(holders[0].glob("*.json")) if path.name not in _NO_RESULTS}


def _parts(path: Path, task: Task) -> tuple[list[Part], str]:
    """The results that the suite asks for, or what of them is missing."""
    by_split = _scores(path)
    splits = [task.split] if task.split else ["test"] if task.mteb is None else list(by_split)
    parts: list[Part] = []
    for split in splits:
        if split not in by_split:
            return [], f"{task.name} (split {split})"
        held = by_split[split]
        for subset in task.subsets or list(held):
            if subset not in held:
                return [], f"{task.name} ({subset})"
            scores = held[subset]
            retrieval = all(metric in scores for metric in RETRIEVAL_METRICS)
            parts.append(Part(task.name, split, subset, retrieval, scores))
    return parts, "" if parts else task.name


def _scores(path: Path) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Split to subset to scores.

    Raises:
        ValueError: the file is none of MTEB's, or of a version before 1.11 that MTEB itself cannot convert.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: an object is expected, as MTEB writes a task's result")
    if "scores" not in value and "mteb_dataset_name" in value:
        value = _converted(path)
    splits = _of_type(value.get("scores"), dict, path, "scores", "an object of splits")
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for split, entries in splits.items():
        for index, entry in enumerate(_of_type(entries, list, path, f"scores.{split}", "a list of subsets")):
            place = f"scores.{split}[{index}]"
            _of_type(entry, dict, path, place, "an object")
            subset = _of_type(entry.get("hf_subset"), str, path, f"{place}.hf_subset", "the subset's name")
            _of_type(entry.get("main_score"), (int, float), path, f"{place}.main_score", "a number")
            found.setdefault(split, {})[subset] = entry
    return found


def _converted(path: Path) -> dict[str, Any]:
    """A result of MTEB before 1.11, by MTEB's own loader."""
    from mteb.results import TaskResult

    try:
        return TaskResult.from_disk(path).to_dict()
    except Exception as error:  # noqa: BLE001 - MTEB's conversion fails in ways of its own; the file is what counts
        raise ValueError(f"{path}: MTEB cannot convert this result of an old version ({error})") from None


def _of_type(value: Any, kind: type | tuple[type, ...], path: Path, key: str, wanted: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        found = "nothing" if value is None else json.dumps(value, default=str)[:40]
        raise ValueError(f"{path}: {key}: {wanted} is expected, found {found}")
    return value


def _report(path: Path | None, task: Task, parts: Sequence[Part]) -> dict[str, float]:
    own = any(f"[{task.group_by}=" in metric for metric in parts[0].scores)
    group_by = task.group_by if own or task.group_by in ("split", "subset") else None
    try:
        return report(task.name, parts, group_by, task.metric)
    except EvaluationError as error:
        raise ValueError(f"{path}: {error}") from None
