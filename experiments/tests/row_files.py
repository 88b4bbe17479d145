"""Rows, and files of them in every format, for the tests of `lmk data`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROW = {"query": "q", "pos": ["p"], "neg": [f"n{i}" for i in range(7)], "pos_scores": [9.0], "neg_scores": [1.0] * 7}


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{**ROW, "query": f"q{number}", "pos": [f"p{number}"], **more} for number in range(count)]


def write(path: Path, *values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(values)), path)
    else:
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
