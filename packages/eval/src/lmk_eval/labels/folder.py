"""Reading labelled texts from a folder, with errors that name file, line and key.

train.jsonl      {"text": "...", "labels": ["fish", "trade"]}      one text a line; labels are texts or whole numbers
<split>.jsonl    the same: the texts that are scored
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_eval.tasks.folder import TaskDataError, _kind, _lines, _listed

TRAIN = "train"


@dataclass(frozen=True)
class LabelledTexts:
    """One file: texts, and each one's labels as texts."""

    texts: list[str]
    labels: list[list[str]]


def read_labels(folder: str | Path, split: str = "test") -> tuple[LabelledTexts, LabelledTexts]:
    """The texts that the probe learns from, and those of the split.

    Raises:
        TaskDataError: on a missing file, a line that can't be read, or a label of the split that is never learnt.
    """
    train_file, split_file = _files(Path(folder), split)
    train, scored = _read(train_file), _read(split_file)
    unknown = sorted({one for own in scored.labels for one in own} - {one for own in train.labels for one in own})
    if unknown:
        raise TaskDataError(f"{split_file}: labels that {train_file.name} does not have: {_listed(unknown)}")
    return train, scored


def labels_fingerprint(folder: str | Path, split: str = "test") -> str:
    """The first 40 hex digits of a SHA-256 of both files: the revision of the data.

    Raises:
        TaskDataError: if a file is missing.
    """
    digest = hashlib.sha256()
    for path in _files(Path(folder), split):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:40]


def _files(folder: Path, split: str) -> tuple[Path, Path]:
    if not folder.is_dir():
        raise TaskDataError(f"{folder}: no such folder")
    if split == TRAIN:
        raise TaskDataError(f"{folder}: split {split!r} is what the probe learns from; score another one")
    paths = folder / f"{TRAIN}.jsonl", folder / f"{split}.jsonl"
    for path in paths:
        if not path.is_file():
            held = _listed(sorted(other.name for other in folder.iterdir()))
            raise TaskDataError(f"{path}: no such file; the folder has: {held}")
    return paths


def _read(path: Path) -> LabelledTexts:
    texts: list[str] = []
    labels: list[list[str]] = []
    for number, line in _lines(path):
        where = f"{path}:{number}"
        try:
            record: Any = json.loads(line)
        except json.JSONDecodeError as error:
            raise TaskDataError(f"{where}: not JSON: {error.msg} at column {error.colno}") from error
        if not isinstance(record, dict):
            raise TaskDataError(f"{where}: is {_kind(record)}, must be an object with the keys text, labels")
        for key in ("text", "labels"):
            if key not in record:
                raise TaskDataError(f"{where}: no key {key!r}; found {_listed(sorted(record))}")
        if not isinstance(record["text"], str):
            raise TaskDataError(f"{where}: key 'text' is {_kind(record['text'])}, must be a text")
        own = record["labels"]
        if not isinstance(own, list) or any(isinstance(one, bool) or not isinstance(one, str | int) for one in own):
            raise TaskDataError(f"{where}: key 'labels' is {_kind(own)}, must be a list of texts or whole numbers")
        texts.append(record["text"])
        labels.append(sorted({str(one) for one in own}))
    if not texts:
        raise TaskDataError(f"{path}: holds no texts")
    return LabelledTexts(texts, labels)
