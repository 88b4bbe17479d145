"""The texts of a corpus as MTEB's models read them, some rows at a time and never all in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

_ROWS = 10_000


def document_texts(corpus: Dataset, rows: range) -> list[str]:
    """Title and text joined, as MTEB's own loader joins them; the text alone where there is no title."""
    part: Any = corpus[rows.start : rows.stop]
    texts = part["text"]
    titles = part.get("title") or [""] * len(texts)
    return [f"{title} {text}".strip() if title else text.strip() for title, text in zip(titles, texts, strict=True)]


def document_characters(corpus: Dataset) -> np.ndarray:
    """[rows] characters of each document, title included."""
    columns = [name for name in ("title", "text") if name in corpus.column_names]
    found = [np.zeros(0, dtype=np.int64)]
    for table in corpus.select_columns(columns).with_format("arrow").iter(batch_size=_ROWS):
        lengths = [
            pc.fill_null(pc.call_function("utf8_length", [table.column(name)]), 0).to_numpy() for name in columns
        ]
        found.append(np.sum(lengths, axis=0, dtype=np.int64))
    return np.concatenate(found)


def document_ids(corpus: Dataset, rows: np.ndarray) -> list[str]:
    """The ids of these rows."""
    column: Any = corpus.select_columns(["id"]).with_format("arrow")
    table: pa.Table = column[rows.tolist()] if len(rows) else pa.table({"id": pa.array([], pa.string())})
    return table.column("id").to_pylist()


def rows_of(corpus: Dataset, ids: Sequence[str]) -> dict[str, int]:
    """Where documents stand: id to row, for those of ``ids`` that the corpus has."""
    wanted = set(ids)
    found: dict[str, int] = {}
    start = 0
    for table in corpus.select_columns(["id"]).with_format("arrow").iter(batch_size=_ROWS):
        held = table.column("id").to_pylist()
        found.update((one, start + place) for place, one in enumerate(held) if one in wanted)
        start += len(held)
    return found
