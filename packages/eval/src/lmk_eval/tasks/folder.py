"""Reading a retrieval task from a folder in the BEIR layout, with errors that name file, line and key.

corpus.jsonl          {"_id": "d1", "title": "optional", "text": "..."}      one document a line
queries.jsonl         {"_id": "q1", "text": "...", "metadata": {...}}        one query a line; metadata is optional
qrels/<split>.tsv     query-id <tab> corpus-id <tab> score                   that header, then one judgement a line
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QRELS_HEADER = ("query-id", "corpus-id", "score")
_SHOWN = 12  # how many valid values a message lists


class TaskDataError(ValueError):
    """The data of a task can't be read. The message names the file, the line and the key."""


@dataclass(frozen=True)
class Query:
    """A query: its text, its `metadata` as written, and its line in `queries.jsonl` (from 1)."""

    text: str
    metadata: Mapping[str, Any]
    line: int


@dataclass(frozen=True)
class FolderData:
    """One split of a folder, checked: every judged id exists and every query has a relevant document."""

    documents: Mapping[str, tuple[str, str]]
    """Document id to (title, text); the title is empty where there is none."""
    queries: Mapping[str, Query]
    """Query id to query; only queries with at least one relevant document (score above 0) in the split."""
    relevant: Mapping[str, Mapping[str, int]]
    """Query id to document id to score, for the same queries. Scores of 0 are kept: they are judgements too."""


def read_folder(folder: str | Path, split: str = "test") -> FolderData:
    """Read one split. Queries without a relevant document in it are left out.

    Raises:
        TaskDataError: on a missing file, a line that can't be read, an id that stands twice or doesn't exist,
            or a split in which nothing is relevant.
    """
    corpus, _, _ = _files(Path(folder), split)
    asked = read_queries(folder, split)
    documents: dict[str, tuple[str, str]] = {}
    for line, key, title, text in read_documents(corpus):
        _new(key, documents, f"{corpus}:{line}")
        documents[key] = (title, text)
    asked.check_documents(documents, len(documents))
    return FolderData(documents, asked.queries, asked.relevant)


@dataclass(frozen=True)
class Asked:
    """The queries of a split and what is relevant for them, before the corpus was looked at."""

    queries: Mapping[str, Query]
    """As in `FolderData`."""
    relevant: Mapping[str, Mapping[str, int]]
    """As in `FolderData`."""
    places: Mapping[str, str]
    """The id of every judged document to the file and line that names it first."""

    def check_documents(self, held: Container[str], documents: int) -> None:
        """See that every judged document is held by the corpus.

        Raises:
            TaskDataError: one is not; the message names the line of the judgement.
        """
        for document, where in self.places.items():
            if document not in held:
                raise TaskDataError(f"{where}: corpus-id {document!r} is not in corpus.jsonl ({documents} documents)")


def read_queries(folder: str | Path, split: str = "test") -> Asked:
    """Everything of a split but its corpus. Queries without a relevant document in it are left out.

    Raises:
        TaskDataError: as `read_folder`.
    """
    _, queries_path, qrels = _files(Path(folder), split)
    queries: dict[str, Query] = {}
    for line, key, record in _records(queries_path):
        where = f"{queries_path}:{line}"
        _new(key, queries, where)
        metadata = record.get("metadata")
        if not isinstance(metadata, dict | None):
            raise TaskDataError(f"{where}: key 'metadata' is {_kind(metadata)}, must be an object")
        queries[key] = Query(_text(record, "text", where), metadata or {}, line)
    judged, places = _judgements(qrels, queries)
    relevant = {query: scores for query, scores in judged.items() if any(score > 0 for score in scores.values())}
    if not relevant:
        raise TaskDataError(
            f"{qrels}: no relevant document (score above 0) for any query; found {len(judged)} judged queries"
        )
    return Asked({key: query for key, query in queries.items() if key in relevant}, relevant, places)


def read_documents(corpus: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line, id, title and text of every document of a corpus, one at a time. An id may stand twice.

    Raises:
        TaskDataError: on a line that can't be read.
    """
    for line, key, record in _records(corpus):
        where = f"{corpus}:{line}"
        yield line, key, _text(record, "title", where, optional=True), _text(record, "text", where)


def fingerprint(folder: str | Path, split: str = "test") -> str:
    """The first 40 hex digits of a SHA-256 of the split's three files: the revision of the data.

    Raises:
        TaskDataError: if a file is missing.
    """
    digest = hashlib.sha256()
    for path in _files(Path(folder), split):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:40]


def _files(folder: Path, split: str) -> tuple[Path, Path, Path]:
    if not folder.is_dir():
        raise TaskDataError(f"{folder}: no such folder")
    paths = (folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / f"{split}.tsv")
    for path in paths:
        if path.is_file():
            continue
        if path is paths[2] and path.parent.is_dir():
            splits = sorted(other.stem for other in path.parent.glob("*.tsv"))
            raise TaskDataError(f"{path}: no such file; splits in the folder: {_listed(splits)}")
        raise TaskDataError(
            f"{path}: no such file; the folder has: {_listed(sorted(p.name for p in folder.iterdir()))}"
        )
    return paths


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of every line that is not blank."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                # A byte order mark is what some editors write at the start of a file.
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise TaskDataError(f"{path}:{number}: not UTF-8: {error.reason} at byte {error.start}") from error
            if text.strip():
                yield number, text


def _records(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Line number, id and whole record of every line of a JSON lines file."""
    for number, text in _lines(path):
        where = f"{path}:{number}"
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise TaskDataError(f"{where}: not JSON: {error.msg} at column {error.colno}") from error
        if not isinstance(record, dict):
            raise TaskDataError(f"{where}: is {_kind(record)}, must be an object with the keys _id, text")
        if "_id" not in record:
            raise TaskDataError(f"{where}: no key '_id'; found {_listed(sorted(record))}")
        key = record["_id"]
        # Numbers are taken as their text: qrels are text, and some exporters write ids as numbers.
        if isinstance(key, bool) or not isinstance(key, str | int) or key == "":
            raise TaskDataError(f"{where}: key '_id' is {_kind(key)}, must be a text that is not empty")
        yield number, str(key), record


def _judgements(path: Path, queries: Mapping[str, Any]) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Query id to document id to score, and the first place of every document."""
    judged: dict[str, dict[str, int]] = {}
    places: dict[str, str] = {}
    lines = _lines(path)
    number, header = next(lines, (1, ""))
    if tuple(part.strip() for part in header.split("\t")) != QRELS_HEADER:
        raise TaskDataError(f"{path}:{number}: the header is {header!r}, must be {' <tab> '.join(QRELS_HEADER)}")
    for number, text in lines:
        where = f"{path}:{number}"
        parts = text.split("\t")
        if len(parts) != len(QRELS_HEADER):
            raise TaskDataError(f"{where}: {len(parts)} columns, must be {', '.join(QRELS_HEADER)} between tabs")
        query, document, score = parts
        if not re.fullmatch(r"\s*-?[0-9]+\s*", score):
            raise TaskDataError(f"{where}: score is {score!r}, must be a whole number")
        if query not in queries:
            raise TaskDataError(f"{where}: query-id {query!r} is not in queries.jsonl ({len(queries)} queries)")
        places.setdefault(document, where)
        known = judged.setdefault(query, {}).setdefault(document, int(score))
        if known != int(score):
            raise TaskDataError(f"{where}: {query!r} and {document!r} are judged twice: {known} before, now {score}")
    return judged, places


def _new(key: str, known: Mapping[str, Any], where: str) -> None:
    if key in known:
        raise TaskDataError(f"{where}: _id {key!r} stands twice in the file")


def _text(record: Mapping[str, Any], key: str, where: str, *, optional: bool = False) -> str:
    if optional and record.get(key) is None:
        return ""
    if key not in record:
        raise TaskDataError(f"{where}: no key {key!r}; found {_listed(sorted(record))}")
    if not isinstance(record[key], str):
        raise TaskDataError(f"{where}: key {key!r} is {_kind(record[key])}, must be a text")
    return record[key]


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return f"{names.get(type(value), 'a number')} ({json.dumps(value, ensure_ascii=False)[:40]})"


def _listed(values: list[str]) -> str:
    rest = f", ... ({len(values)} in all)" if len(values) > _SHOWN else ""
    return (", ".join(values[:_SHOWN]) or "nothing") + rest
