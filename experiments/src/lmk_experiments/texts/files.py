"""Texts of a file, one at a time, with their ids: JSONL, gzipped JSONL, parquet, or a text a line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JSONL = (".jsonl", ".jsonl.gz")
_IDS = ("_id", "id")


@dataclass(frozen=True)
class TextFile:
    """A file of texts, which can be gone through as often as wanted.

    Attributes:
        path: what kind it is, its name says: .jsonl, .jsonl.gz, .parquet; anything else is a text a line.
        text_key: where a row has its text (not in a file of lines).
        id_key: where a row has its id; None takes ``_id`` or ``id`` where the first row has one, else numbers the rows.
    """

    path: Path
    text_key: str = "text"
    id_key: str | None = None

    def rows(self) -> Iterator[tuple[str, str]]:
        """Each row's id and text.

        Raises:
            ValueError: with the file, the line (or row) and the key, for what is not there or no text.
        """
        places = self._places()
        if places is None:
            for number, line in enumerate(self._lines()):
                yield str(number), line
            return
        id_key = self.id_key
        for number, (place, row) in enumerate(places):
            if number == 0 and id_key is None:
                id_key = next((key for key in _IDS if key in row), None)
            text = self._value(place, row, self.text_key)
            if not isinstance(text, str):
                raise ValueError(f"{place}: {self.text_key}: expected a string, found {type(text).__name__}")
            if id_key is None:
                yield str(number), text
                continue
            own = self._value(place, row, id_key)
            if isinstance(own, bool) or not isinstance(own, (str, int)):
                raise ValueError(f"{place}: {id_key}: expected a string or an integer, found {type(own).__name__}")
            yield str(own), text

    def texts(self) -> Iterator[str]:
        """Each row's text."""
        for _, text in self.rows():
            yield text

    def each_text(self) -> Iterator[str]:
        """Each row's text; where a row has a list of texts (the passages of training data), each of them.

        Raises:
            ValueError: as `rows`.
        """
        places = self._places()
        if places is None:
            yield from self._lines()
            return
        for place, row in places:
            value = self._value(place, row, self.text_key)
            held = value if isinstance(value, list) else [value]
            for one in held:
                if not isinstance(one, str):
                    raise ValueError(
                        f"{place}: {self.text_key}: expected a string or a list of strings, found "
                        f"{'a list with ' if one is not value else ''}{type(one).__name__}"
                    )
                yield one

    def _places(self) -> Iterator[tuple[str, dict[str, Any]]] | None:
        """Rows with their places; None for a file of lines."""
        if not self.path.is_file():
            raise ValueError(f"{self.path}: no such file")
        if self._is(".parquet"):
            return self._parquet()
        return self._jsonl() if self._is(*JSONL) else None

    def _is(self, *endings: str) -> bool:
        return self.path.name.lower().endswith(endings)

    def _value(self, place: str, row: dict[str, Any], key: str) -> Any:
        if key not in row:
            raise ValueError(f"{place}: {key}: missing; the keys are: {', '.join(row) or 'none'}")
        return row[key]

    def _jsonl(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, line in enumerate(self._lines(), 1):
            if not line.strip():
                continue
            place = f"{self.path}:{number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{place}: not valid JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f'{place}: expected an object such as {{"{self.text_key}": ...}}, found {row!r:.40}')
            yield place, row

    def _lines(self) -> Iterator[str]:
        opened = gzip.open if self._is(".gz") else open
        number = 0
        try:
            with opened(self.path, "rb") as stream:
                for number, line in enumerate(stream, 1):
                    yield line.decode("utf-8").rstrip("\r\n").removeprefix("\ufeff" if number == 1 else "")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}:{number}: not UTF-8 at byte {error.start} of the line") from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{self.path}: behind line {number}: not a whole gzip file: {error}") from None

    def _parquet(self) -> Iterator[tuple[str, dict[str, Any]]]:
        import pyarrow
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(self.path)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{self.path}: not a parquet file: {error}") from None
        names = file.schema_arrow.names
        wanted = [key for key in (self.text_key, self.id_key or "", *_IDS) if key in names]
        for key in (self.text_key, self.id_key):
            if key is not None and key not in names:
                raise ValueError(f"{self.path}: {key}: missing; the columns are: {', '.join(names)}")
        number = 0
        for batch in file.iter_batches(batch_size=4096, columns=list(dict.fromkeys(wanted))):
            for row in batch.to_pylist():
                yield f"{self.path}: row {number}", row
                number += 1
