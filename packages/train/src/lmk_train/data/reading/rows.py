"""Records to rows: FlagEmbedding's layout and Tevatron's, every fault by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lmk_train.data.errors import DataError
from lmk_train.data.reading.cases import ROW_KEYS, UNREAD, Findings
from lmk_train.data.reading.files import Progress, data_files, read_records

_READ = {"query", "pos", "neg", "pos_scores", "neg_scores", "prompt"}
_TEVATRON = {"query_id", "query", "positive_passages", "negative_passages"}

_SYMMETRIC = {"symmetric_sts", "symmetric_clustering"}
"""FlagEmbedding's types of rows whose passages get the query's prompt too."""

_LARGEST = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Row:
    """A query with its positives and hard negatives.

    ``positive_scores`` and ``negative_scores`` are a teacher's scores, as long as the texts they belong to;
    both are ``None`` when any score of the row is missing. ``dropped`` says how many texts of the file's `neg` are not
    among the negatives, because the row has them as positives too, and ``duplicates`` how many, because they stand
    there before. ``unread`` are keys of the record that nothing reads.
    """

    query: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]
    positive_scores: tuple[float, ...] | None = None
    negative_scores: tuple[float, ...] | None = None
    dropped: int = 0
    duplicates: int = 0
    prompt: str | None = None
    type: str | None = None
    unread: tuple[str, ...] = ()

    @property
    def has_scores(self) -> bool:
        return self.positive_scores is not None

    def prompted(self, prompt: str | None) -> Row:
        """The row with its prompt in front, as ``data.prompt`` says; a symmetric row's passages get it too.

        Example:
            >>> Row("q", ("p",), (), prompt="Find:").prompted("{prompt} {text}").query
            'Find: q'
        """
        if prompt is None or not self.prompt:
            return self

        def filled(text: str) -> str:
            return prompt.format(prompt=self.prompt, text=text)

        row = replace(self, query=filled(self.query))
        if self.type not in _SYMMETRIC:
            return row
        return replace(row, positives=tuple(map(filled, row.positives)), negatives=tuple(map(filled, row.negatives)))


def read_rows(
    path: str | Path, findings: Findings, *, prompt: str | None = None, progress: Progress | None = None
) -> Iterator[tuple[int, Row]]:
    """The rows of one file that can be used, with their line from 1, in the file's order.

    Args:
        path: The file.
        findings: What is found is counted there, faulty rows among it.
        prompt: ``data.prompt``.
        progress: Told how far reading is.

    Raises:
        DataError: The file is damaged or ends too early.
    """
    for number, _, row in usable_records(path, findings, progress=progress):
        count_row(row, findings, prompt)
        yield number, row.prompted(prompt)


def usable_records(
    path: str | Path, findings: Findings, *, progress: Progress | None = None
) -> Iterator[tuple[int, dict[str, Any], Row]]:
    """The records of one file that make a row, with their line and that row; the others are counted as faulty.

    Raises:
        DataError: The file is damaged or ends too early.
    """
    for number, record in read_records(path, progress):
        try:
            if isinstance(record, DataError):
                raise record
            row = row_of(record, path, number)
        except DataError as error:
            findings.add_fault(error)
            continue
        yield number, record, row


class Rows(Sequence[Row]):
    """All rows of some files and folders, in memory: for data that is looked at as a whole, as held-out rows are.

    Raises:
        DataError: A file or a row is faulty.
    """

    def __init__(self, paths: Sequence[str | Path], *, prompt: str | None = None) -> None:
        self.findings = Findings()
        self._rows: list[Row] = []
        for file in (file for path in paths for file in data_files(path)):
            found = Findings()
            self._rows += [row for _, row in read_rows(file, found, prompt=prompt)]
            found.check(file, 0.0)
            self.findings.merge(found)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]


def check_file(path: str | Path, *, max_faulty: float = 0.0, progress: Progress | None = None) -> Findings:
    """Reads a file or folder and keeps nothing of it.

    Raises:
        DataError: A file is faulty, or more than ``max_faulty`` of its rows.
    """
    findings = Findings()
    for file in data_files(path):
        found = Findings()
        for _ in read_rows(file, found, progress=progress):
            pass
        found.check(file, max_faulty)
        findings.merge(found)
    return findings


def row_of(record: Any, path: str | Path, number: int) -> Row:
    """The row of one record.

    A text of `neg` that is one of `pos` too, letter by letter, or that stands in `neg` before, is left out with its
    score.

    Raises:
        DataError: Naming ``path``, ``number``, the key, what was found and what is valid.

    Example:
        >>> record = {"query": "a", "pos": ["b"], "neg": ["c", "b", "c"], "pos_scores": None}
        >>> row = row_of(record, "rows.jsonl", 1)
        >>> row.positives, row.negatives, row.positive_scores, row.dropped, row.duplicates
        (('b',), ('c',), None, 1, 1)
    """
    data, unread = _as_flag_embedding(record, path, number)
    for key in ("query", "pos"):
        if data.get(key) is None:
            found = ", ".join(repr(name) for name in record) or "none"
            what = "null" if key in data else "missing"
            problem = f"the key {key!r} is {what} (found: {found}); a row has {ROW_KEYS}"
            raise DataError(path, number, problem, "missing_key")
    for key in ("query", "prompt"):
        if not isinstance(data.get(key, ""), str | None):
            raise DataError(path, number, f"{key!r} must be a string, found {_short(data[key])}", "wrong_type")
    positives = _texts(data, "pos", path, number)
    if not positives:
        raise DataError(path, number, "'pos' is empty; at least one positive is needed", "no_positives")
    negatives = _texts(data, "neg", path, number)
    positive_scores = _scores(data, "pos_scores", "pos", len(positives), path, number)
    negative_scores = _scores(data, "neg_scores", "neg", len(negatives), path, number)
    if not negatives and negative_scores is None:
        negative_scores = ()
    if positive_scores is None or negative_scores is None:
        positive_scores = negative_scores = None
    first = {text: place for place, text in reversed(list(enumerate(negatives)))}
    others = [place for place, text in enumerate(negatives) if text not in positives]
    kept = [place for place in others if first[negatives[place]] == place]
    kind = data.get("type")
    return Row(
        data["query"],
        positives,
        tuple(negatives[i] for i in kept),
        positive_scores,
        None if negative_scores is None else tuple(negative_scores[i] for i in kept),
        dropped=len(negatives) - len(others),
        duplicates=len(others) - len(kept),
        prompt=data.get("prompt") or None,
        type=kind if isinstance(kind, str) else None,
        unread=unread,
    )


def _as_flag_embedding(record: Any, path: str | Path, number: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The record with FlagEmbedding's keys, and the keys that nothing reads."""
    if not isinstance(record, dict):
        problem = f"found {_short(record)}; each line is a JSON object with {ROW_KEYS}"
        raise DataError(path, number, problem, "not_an_object")
    if "pos" not in record and "positive_document_ids" in record:
        problem = "'positive_document_ids' names documents of another file; write their texts into 'positive_passages'"
        raise DataError(path, number, problem, "missing_key")
    if "pos" in record or "positive_passages" not in record:
        return record, tuple(key for key in record if key not in _READ and record[key] is not None)
    data: dict[str, Any] = {"query": record.get("query")}
    for key, name in (("pos", "positive_passages"), ("neg", "negative_passages")):
        passages = [] if record.get(name) is None else record[name]
        if not isinstance(passages, list):
            raise DataError(path, number, f"{name!r} must be a list, found {_short(passages)}", "wrong_type")
        data[key] = [_passage(passage, name, path, number) for passage in passages]
    return data, tuple(key for key in record if key not in _TEVATRON and record[key] is not None)


def _passage(passage: Any, name: str, path: str | Path, number: int) -> str:
    """Title and text of one of Tevatron's passages, as Tevatron joins them."""
    text = passage.get("text") if isinstance(passage, dict) else None
    if not isinstance(text, str):
        problem = f"{name!r} must hold objects with the key 'text' (a string), found {_short(passage)}"
        raise DataError(path, number, problem, "wrong_type")
    title = passage.get("title") or ""
    return f"{title} {text}" if title else text


def count_row(row: Row, findings: Findings, prompt: str | None) -> None:
    """Counts what is unusual about a row that is used."""
    findings.rows += 1
    findings.scored += row.has_scores
    found = {
        "without_scores": not row.has_scores,
        "without_negatives": not row.negatives,
        "positives_among_negatives": row.dropped,
        "duplicate_negatives": row.duplicates,
        "empty_texts": sum(not text or text.isspace() for text in (row.query, *row.positives, *row.negatives)),
        "prompts_not_used": prompt is None and row.prompt is not None,
        # The type decides who gets a prompt, and nothing else.
        **{f"{UNREAD}{key}": 1 for key in row.unread if not (key == "type" and prompt is not None)},
    }
    findings.counts.update({name: int(count) for name, count in found.items() if count})


def _texts(data: dict[str, Any], key: str, path: str | Path, number: int) -> tuple[str, ...]:
    value = data.get(key)
    if value is None and key == "neg":
        return ()
    if not isinstance(value, list):
        example = f"; write [{_short(value)}]" if isinstance(value, str) else ""
        problem = f"{key!r} must be a list of strings, found {_short(value)}{example}"
        raise DataError(path, number, problem, "wrong_type")
    for text in value:
        if not isinstance(text, str):
            raise DataError(path, number, f"{key!r} must hold strings only, found {_short(text)}", "wrong_type")
    return tuple(value)


def _scores(
    data: dict[str, Any], key: str, texts: str, expected: int, path: str | Path, number: int
) -> tuple[float, ...] | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, list):
        problem = f"{key!r} must be a list of numbers or null, found {_short(value)}"
        raise DataError(path, number, problem, "score_value")
    if len(value) != expected:
        problem = f"{key!r} has {len(value)} scores for {expected} texts in {texts!r}; they must be equally many"
        raise DataError(path, number, problem, "score_count")
    missing = False
    for score in value:
        if score is None:
            missing = True
        elif isinstance(score, bool) or not isinstance(score, int | float) or not _is_finite(score):
            problem = f"{key!r} must hold finite numbers or null, found {_short(score)}"
            raise DataError(path, number, problem, "score_value")
    return None if missing else tuple(float(score) for score in value)


def _is_finite(score: float) -> bool:
    """Whether it is a finite number of float32, in which the loss is computed."""
    return abs(score) <= _LARGEST  # false for NaN; JSON has integers of any size, which no float can hold


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
