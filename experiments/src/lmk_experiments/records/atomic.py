"""Files that are either whole or absent, whatever kills the writer."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmk_experiments.records.shapes import RecordError, Shape, checked


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_UMASK = _read_umask()
"""Read once: it is read by setting it, and what other threads make meanwhile would be open to all."""


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` through a temporary file in the same folder and one rename.

    The data is flushed to disk before the rename, so a lost node leaves the old file or the new one, never half of one.
    A full disk raises ``OSError`` and leaves the old file as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o666 & ~_UMASK)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically. NaN and infinities are refused (``ValueError``)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any | None:
    """The JSON in ``path``, or ``None`` where there is no such file.

    Raises:
        ValueError: the file is there but holds no JSON; the message names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not valid JSON: not UTF-8 at byte {error.start}") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error


def read_record(path: Path, shape: Shape) -> dict[str, Any] | None:
    """The object in ``path``, or ``None`` where there is no such file.

    Raises:
        ValueError: the file is there but holds no JSON (``RecordError``: not of this shape); the message names it.
    """
    value = read_json(path)
    if value is None and not path.exists():
        return None
    return checked(value, shape, str(path))


def append_line(path: Path, value: Any) -> None:
    """Append ``value`` as one line of JSON with one write call.

    A line that a killed writer left unfinished is closed first, so that it can spoil itself only.
    """
    line = json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
    with path.open("ab+") as stream:
        if stream.seek(0, os.SEEK_END) > 0:
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":
                line = "\n" + line
        stream.write(line.encode())


def scan_lines(path: Path, shape: Shape) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines of a JSONL file that have this shape, and what is wrong with others, each by file and line.

    A line that a kill cut short is left out without a word.
    """
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    return parse_lines(raw.split(b"\n"), path, shape)


def parse_lines(
    raw: Iterable[bytes], path: Path, shape: Shape, first: int = 1
) -> tuple[list[dict[str, Any]], list[str]]:
    """As ``scan_lines``, of lines of ``path`` that were read already; ``first`` is the number of the first one."""
    values: list[dict[str, Any]] = []
    wrong: list[str] = []
    for number, line in enumerate(raw, first):
        try:
            values.append(checked(json.loads(line), shape, f"{path}:{number}"))
        except RecordError as error:
            wrong.append(str(error))
        except ValueError:
            continue
    return values, wrong


def read_lines(path: Path, shape: Shape) -> list[dict[str, Any]]:
    """The lines of a JSONL file that have this shape; others are left out."""
    return scan_lines(path, shape)[0]
