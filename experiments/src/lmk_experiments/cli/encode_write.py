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
        self.digests: list[str] = [] if known is None else known["parts"]

    def unfinished(self, rows: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
        """The parts of (id, text) rows that are still to be done.

        Raises:
            ValueError: if the rows of the finished parts are not those that were encoded.
        """
        from lmk_core.embedder.files import texts_digest

        stream = iter(rows)
        number = 0
        while part := list(islice(stream, PART_ROWS)):
            digest = texts_digest([pair for row in part for pair in row])
            if number >= len(self.digests):
                yield part
                self.digests.append(digest)
                self._write()
            elif self.digests[number] != digest:
                first = number * PART_ROWS
                raise ValueError(
                    f"{self.folder}: the input has changed: rows {first} to {first + len(part) - 1} are not those that "
                    "were encoded; delete it to start anew"
                )
            number += 1
        if number < len(self.digests):
            raise ValueError(f"{self.folder}: the input has changed: it is shorter now; delete it to start anew")

    def add(self, rows: list[Row]) -> None:
        """Write the rows of the part that `unfinished` gave last. It counts when the next one is asked for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{len(self.digests):06d}{self.out.suffix}"
        if self.out.suffix == ".parquet":
            _write_parquet(path, rows)
        else:
            with path.open("w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def join(self) -> None:
        """Make one file of all parts, under its name only when it is whole."""
        parts = [self.folder / f"{number:06d}{self.out.suffix}" for number in range(len(self.digests))]
        self.folder.mkdir(parents=True, exist_ok=True)
        whole = self.folder / f"whole{self.out.suffix}"
        if self.out.suffix == ".parquet":
            _join_parquet(whole, parts)
        else:
            with whole.open("wb") as stream:
                for part in parts:
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, stream)
        whole.replace(self.out)
        shutil.rmtree(self.folder)

    def _write(self) -> None:
        write_json(self.record, {"settings": self.settings, "parts": self.digests})


def _schema(with_spans: bool) -> Any:
    import pyarrow

    spans = [(name, pyarrow.int32()) for name in ("landmark", "start", "end")] if with_spans else []
    return pyarrow.schema([("id", pyarrow.string()), *spans, ("vector", pyarrow.list_(pyarrow.float32()))])


def _write_parquet(path: Path, rows: list[Row]) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows, _schema("start" in rows[0])), path)


def _join_parquet(whole: Path, parts: list[Path]) -> None:
    from pyarrow import parquet

    schema = parquet.read_schema(parts[0]) if parts else _schema(with_spans=False)
    with parquet.ParquetWriter(whole, schema) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part))
