"""Corpora of own folders that are too large to hold: an Arrow file beside those of `datasets`, mapped into memory."""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import Dataset, config

from lmk_eval.tasks.folder import Asked, TaskDataError, read_documents

LARGE_BYTES = 32_000_000
"""A `corpus.jsonl` of this size is not read into memory."""
_ROWS = 10_000
_SCHEMA = pa.schema({"id": pa.string(), "title": pa.string(), "text": pa.string()})


def map_corpus(corpus: Path, revision: str, asked: Asked) -> Dataset:
    """The documents of a large corpus, on disk: the file is read once, whoever asks for it, and kept in the cache.

    Args:
        corpus: the `corpus.jsonl`.
        revision: names its content, and so the file in the cache.
        asked: the queries and judgements; every judged document must be there.

    Raises:
        TaskDataError: on a line that can't be read, an id that stands twice, or a judged document that isn't there.
    """
    place = Path(config.HF_DATASETS_CACHE) / "lmk-corpora" / f"{revision}.arrow"
    if not place.is_file():
        _write(corpus, place, asked)
    return Dataset.from_file(str(place))


def _write(corpus: Path, place: Path, asked: Asked) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(6)}")
    seen = array("Q")
    found: set[str] = set()
    try:
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
            for rows in _batches(corpus, lambda key: found.add(key) if key in asked.places else None, seen):
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))
        _check_once(corpus, seen)
        asked.check_documents(found, len(seen))
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def _batches(corpus: Path, note: Callable[[str], None], seen: array) -> Iterator[list[dict[str, str]]]:
    rows: list[dict[str, str]] = []
    for _, key, title, text in read_documents(corpus):
        note(key)
        seen.append(_short(key))
        rows.append({"id": key, "title": title, "text": text})
        if len(rows) == _ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def _short(key: str) -> int:
    """An id in eight bytes: of tens of millions, hardly two are the same by chance."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _check_once(corpus: Path, seen: array) -> None:
    """No id stands twice. What is the same in eight bytes is looked at again."""
    values, counts = np.unique(np.frombuffer(seen, dtype=np.uint64), return_counts=True)
    again = set(values[counts > 1].tolist())
    if not again:
        return
    known: set[str] = set()
    for line, key, _, _ in read_documents(corpus):
        if _short(key) in again:
            if key in known:
                raise TaskDataError(f"{corpus}:{line}: _id {key!r} stands twice in the file")
            known.add(key)
