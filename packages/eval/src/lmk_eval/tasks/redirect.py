"""MTEB's own tasks on data that the user has: a copy of their metadata says where it lies, all else stays.

Looked for below the folder of mirrors, under the task's name or its data set's name on the hub (``mteb/nfcorpus``):

- the BEIR layout (for a task with languages, one such folder each, named as MTEB names the language; for a task whose
  splits have corpora of their own, one each inside, named as the split),
- labelled texts, for a multilabel classification (languages likewise),
- else a copy of the hub's repository, with its README.md and its files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTask, AbsTaskMultilabelClassification, AbsTaskRetrieval

from lmk_eval.labels.folder import TRAIN, labels_fingerprint, read_labels
from lmk_eval.tasks.folder import TaskDataError, fingerprint
from lmk_eval.tasks.local import folder_data


def find_mirror(task: AbsTask, mirrors: Path | None) -> Path | None:
    """The folder of a task's data below ``mirrors``; None where there is none."""
    if mirrors is None:
        return None
    places = (mirrors / task.metadata.name, mirrors / task.metadata.dataset["path"])
    return next((place for place in places if place.is_dir()), None)


def redirect(task: AbsTask, place: Path) -> None:
    """Let this instance of a task read its data from ``place``. Its class stays as it is.

    Raises:
        TaskDataError: if ``place`` lacks a language or a file of the layout that it has.
    """
    parts = [(_folder(task, place, subset, split), split) for subset in task.hf_subsets for split in task.eval_splits]
    first = parts[0][0]
    if isinstance(task, AbsTaskRetrieval) and (first / "corpus.jsonl").is_file():
        revision = _digest(fingerprint(folder, split) for folder, split in parts)
        _change(task, place, revision, lambda self, **_: _load_retrieval(self, place))
    elif isinstance(task, AbsTaskMultilabelClassification) and (first / f"{TRAIN}.jsonl").is_file():
        revision = _digest(labels_fingerprint(folder, split) for folder, split in parts)
        _change(task, place, revision, lambda self, **_: _load_labels(self, place))
    else:
        files = [path for path in sorted(place.rglob("*")) if path.is_file() and not path.name.startswith(".")]
        if not files:
            raise TaskDataError(f"{place}: holds no files, so {task.metadata.name} can't be read from it")
        # A mirror may be of many GB: it is known by its files' names and sizes, not by reading them.
        _change(task, place, _digest(f"{path.relative_to(place)} {path.stat().st_size}" for path in files), None)


def _change(task: AbsTask, place: Path, revision: str, load: Callable[..., None] | None) -> None:
    """Make the task an instance of a class of its own, since MTEB drops what an instance says when it unloads data."""
    known = {key: value for key, value in task.metadata.dataset.items() if key != "trust_remote_code"}
    metadata = task.metadata.model_copy(
        update={"dataset": {**known, "path": str(place), "revision": f"local-{revision}"}}
    )
    own: dict[str, Any] = {"metadata": metadata}
    if load is not None:
        own["load_data"] = load
    base = type(task)
    task.__class__ = type(base.__name__, (base,), own)


def _folder(task: AbsTask, place: Path, subset: str, split: str) -> Path:
    folder = place / subset if task.metadata.is_multilingual else place
    return folder / split if (folder / split).is_dir() else folder


def _load_retrieval(task: Any, place: Path) -> None:
    if task.data_loaded:
        return
    task.dataset = {}
    for subset in task.hf_subsets:
        task.dataset[subset] = {}
        for split in task.eval_splits:
            task.dataset[subset][split] = folder_data(_folder(task, place, subset, split), split)[0]
    task.data_loaded = True


def _load_labels(task: Any, place: Path) -> None:
    if task.data_loaded:
        return
    found = {subset: _labels(task, place, subset) for subset in task.hf_subsets}
    task.dataset = found if task.metadata.is_multilingual else found[task.hf_subsets[0]]
    task.data_loaded = True


def _labels(task: Any, place: Path, subset: str) -> DatasetDict:
    held = {}
    for split in task.eval_splits:
        train, held[split] = read_labels(_folder(task, place, subset, split), split)
        held[TRAIN] = train
    columns = (task.input_column_name, task.label_column_name)
    return DatasetDict(
        {
            name: Dataset.from_dict(dict(zip(columns, (one.texts, one.labels), strict=True)))
            for name, one in held.items()
        }
    )


def _digest(parts: Any) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
