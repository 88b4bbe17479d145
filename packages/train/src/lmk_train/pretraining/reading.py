"""Files of texts: rows with the key `text`, and plain text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmk_train.data.errors import DataError
from lmk_train.data.reading.cases import Findings
from lmk_train.data.reading.files import Progress, data_files, is_plain_text, read_records, read_text_lines

CHARACTERS_A_TOKEN = 4
"""About as many as a token of English has: a plain text is tokenized in pieces of that many times ``max_length``, and
those that have more tokens than fit are cut once more."""

EMPTY = "without_text"
"""Counts texts of white space alone, which are left out: nothing can be learnt from them."""


def read_texts(
    path: Path, findings: Findings, *, characters: int, progress: Progress | None = None
) -> Iterator[tuple[int, str]]:
    """The texts of a file with the line (of parquet: row) where each begins, from 1.

    Args:
        path: JSON lines, also compressed, or parquet: each row's `text`. Or plain text, which is one text, or several
            where it has more than ``characters``: these are cut at blank lines, else between words.
        findings: Gets what is found.
        characters: The longest piece of a plain text.
        progress: Told how far it is.

    Raises:
        DataError: The file is damaged, or ends in the middle.
    """
    pieces = _pieces(path, characters, progress) if is_plain_text(path) else _rows(path, progress)
    for number, text in pieces:
        if isinstance(text, DataError):
            findings.add_fault(text)
        elif text.strip():
            findings.rows += 1
            yield number, text
        else:
            findings.counts[EMPTY] += 1


def check_findings(findings: Findings, path: Path, max_faulty: float) -> None:
    """Sees that a file has texts, and no more faulty rows than ``max_faulty`` of all.

    Raises:
        DataError: it has not, or more.
    """
    if not findings.rows and not findings.faulty:
        raise DataError(path, None, "it holds no texts; each row needs 'text' (a string, not empty)", "no_rows")
    findings.check(path, max_faulty)


def check_texts(path: str | Path, *, max_length: int, max_faulty: float = 0.0) -> None:
    """Reads all texts of a file or a folder once.

    Raises:
        DataError: a file is damaged, holds no text, or more faulty rows than ``max_faulty``.
    """
    for file in data_files(path, plain_text=True):
        findings = Findings()
        for _ in read_texts(file, findings, characters=CHARACTERS_A_TOKEN * max_length):
            pass
        check_findings(findings, file, max_faulty)


def _rows(path: Path, progress: Progress | None) -> Iterator[tuple[int, str | DataError]]:
    for number, record in read_records(path, progress):
        yield number, _text_of(record, path, number)


def _text_of(record: Any, path: Path, number: int) -> str | DataError:
    if isinstance(record, DataError):
        return record
    if not isinstance(record, dict):
        problem = f"a JSON object with the key 'text' is expected, found {type(record).__name__}"
        return DataError(path, number, problem, "not_an_object")
    text = record.get("text")
    if text is None:
        keys = ", ".join(repr(key) for key in record) or "none"
        return DataError(path, number, f"key 'text' is missing or null; it has the keys: {keys}", "missing_key")
    if not isinstance(text, str):
        return DataError(path, number, f"key 'text': a string is expected, found {type(text).__name__}", "wrong_type")
    return text


def _pieces(path: Path, characters: int, progress: Progress | None) -> Iterator[tuple[int, str | DataError]]:
    """Paragraphs together, as many as fit."""
    piece, begins = "", 1
    for number, paragraph in _paragraphs(path, progress):
        if isinstance(paragraph, DataError):
            yield number, paragraph
            continue
        if piece and len(piece) + len(paragraph) > characters:
            yield begins, piece
            piece = ""
        if not piece:
            begins = number
        piece += paragraph
        start = 0
        while len(piece) - start > characters:  # a paragraph that is too long alone
            space = piece.rfind(" ", start + 1, start + characters + 1)
            end = start + characters if space < 0 else space
            yield begins, piece[start:end]
            start = end
        piece = piece[start:]
    if piece.strip():
        yield begins, piece


def _paragraphs(path: Path, progress: Progress | None) -> Iterator[tuple[int, str | DataError]]:
    lines: list[str] = []
    begins, is_behind_blank = 1, False
    for number, line in read_text_lines(path, progress):
        if isinstance(line, DataError):
            yield number, line
            continue
        if line.strip() and is_behind_blank:
            yield begins, "".join(lines)
            lines = []
        is_behind_blank = not line.strip() and bool(lines)
        if not lines:
            begins = number
        lines.append(line)
    if lines:
        yield begins, "".join(lines)
