"""Rows with vectors, written part by part to ``.OUT.parts`` and joined at the end, so that a kill costs one part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from lmk_experiments.records.atomic import read_json, write_json

PART_ROWS = 4096
# With vectors a row takes a hundred times its text: of long texts, which have many landmarks, fewer make a part.
PART_CHARACTERS = 4_000_000
_GROUP_ROWS = 1024
Row = dict[str, Any]


class Parts:
    """The parts of one output.

    Args:
        out: ends in ``.jsonl`` or ``.parquet``.
        settings: everything that decides what the rows are.

    Raises:
        ValueError: if ``out`` is there already, or the parts that are there are of other settings.
    """

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        self.out = out
        self.folder = out.with_name(f".{out.name}.parts")
        self.record = self.folder / "parts.json"
        if out.exists():
            raise ValueError(f"--out {out}: exists already; delete it, or choose another name")
        self.settings = json.loads(json.dumps(settings))
        known: Any = read_json(self.record)
        if known is not None and known["settings"] != self.settings:
            changed = sorted(key for key, value in self.settings.items() if known["settings"].get(key) != value)
            raise ValueError(
                f"{self.folder}: half of an encoding with another {', '.join(changed)}; delete it to start anew"
            )
        self.parts: list[dict[str, Any]] = [] if known is None else known["parts"]
        self._added = 0

    def unfinished(self, rows: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
        """The parts of (id, text) rows that are still to be done.

        Raises:
            ValueError: if the rows of the finished parts are not those that were encoded.
        """
        from lmk_core.embedder.files import texts_digest

        number, first = 0, 0
        for part in _cut(rows):
            digest = texts_digest([pair for row in part for pair in row])
            if number >= len(self.parts):
                yield part
                self.parts.append({"texts": digest, "rows": self._added})
                self._write()
            elif self.parts[number]["texts"] != digest:
                raise ValueError(
                    f"{self.folder}: the input has changed: rows {first} to {first + len(part) - 1} are not those that "
                    "were encoded; delete it to start anew"
                )
            number, first = number + 1, first + len(part)
        if number < len(self.parts):
            raise ValueError(f"{self.folder}: the input has changed: it is shorter now; delete it to start anew")

    def add(self, rows: Iterable[Row]) -> None:
        """Write the rows of the part that `unfinished` gave last. It counts when the next one is asked for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{len(self.parts):06d}{self.out.suffix}"
        self._added = 0
        if self.out.suffix == ".parquet":
            _write_parquet(path, self._counted(rows), self._schema())
        else:
            with path.open("w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in self._counted(rows))

    def _counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self._added += 1
            yield row

    def _schema(self) -> Any:
        return _schema(with_spans=bool(self.settings.get("landmarks")))

    def join(self) -> int:
        """Make one file of all parts, under its name only when it is whole. Gives the number of its rows."""
        parts = [self.folder / f"{number:06d}{self.out.suffix}" for number in range(len(self.parts))]
        self.folder.mkdir(parents=True, exist_ok=True)
        whole = self.folder / f"whole{self.out.suffix}"
        if self.out.suffix == ".parquet":
            _join_parquet(whole, parts, self._schema())
        else:
            with whole.open("wb") as stream:
                for part in parts:
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, stream)
        whole.replace(self.out)
        shutil.rmtree(self.folder)
        return sum(part["rows"] for part in self.parts)

    def _write(self) -> None:
        write_json(self.record, {"settings": self.settings, "parts": self.parts})


def _cut(rows: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    part: list[tuple[str, str]] = []
    characters = 0
    for row in rows:
        part.append(row)
        characters += len(row[1])
        if len(part) >= PART_ROWS or characters >= PART_CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part


def _schema(with_spans: bool) -> Any:
    import pyarrow

    spans = [(name, pyarrow.int32()) for name in ("landmark", "start", "end")] if with_spans else []
    return pyarrow.schema([("id", pyarrow.string()), *spans, ("vector", pyarrow.list_(pyarrow.float32()))])


def _write_parquet(path: Path, rows: Iterator[Row], schema: Any) -> None:
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(rows, _GROUP_ROWS)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema))


def _join_parquet(whole: Path, parts: list[Path], schema: Any) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(whole, schema) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part))
