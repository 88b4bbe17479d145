"""Formats, folders, and files that are damaged."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lmk_train.data import DataError, Findings
from lmk_train.data.reading import data_files, length_bucket, read_rows

ROWS = [
    {"query": f"q{i} é", "pos": [f"p{i}"], "neg": [f"n{i}", f"m{i}"], "pos_scores": [1.0], "neg_scores": [0.5, 0.25]}
    for i in range(700)
]
TEXT = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def zstd(text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text)
    return sink.getvalue().to_pybytes()


COMPRESS = {
    ".jsonl": bytes,
    ".json": bytes,
    ".jsonl.gz": gzip.compress,
    ".jsonl.xz": lzma.compress,
    ".json.bz2": bz2.compress,
    ".jsonl.zst": zstd,
}


def queries(path: Path) -> list[tuple[int, str]]:
    return [(number, row.query) for number, row in read_rows(path, Findings())]


@pytest.mark.parametrize("ending", [*COMPRESS, ".parquet"])
def test_every_format_has_the_same_rows(ending, tmp_path):
    path = tmp_path / f"rows{ending}"
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=100)
    else:
        path.write_bytes(COMPRESS[ending](TEXT))
    seen: list[tuple[int, int]] = []
    findings = Findings()
    rows = list(read_rows(path, findings, progress=lambda done, total: seen.append((done, total))))
    assert [(number, row.query, row.negative_scores) for number, row in rows] == [
        (number, row["query"], (0.5, 0.25)) for number, row in enumerate(ROWS, start=1)
    ]
    assert findings.scored == 700
    size = path.stat().st_size
    assert seen[-1] == (size, size)
    assert seen == sorted(seen)


@pytest.mark.parametrize("ending", [".jsonl.gz", ".jsonl.xz", ".json.bz2", ".jsonl.zst", ".parquet"])
def test_a_truncated_file_stops(ending, tmp_path):
    path = tmp_path / f"rows{ending}"
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        whole = path.read_bytes()
    else:
        whole = COMPRESS[ending](TEXT)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError) as caught:
        queries(path)
    assert caught.value.case == "truncated"
    assert "get it again" in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_damaged_file_names_the_line_it_got_to(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    whole = gzip.compress(b'{"query": "q", "pos": ["p"]}\n' * 3)
    path.write_bytes(whole[:-4])
    with pytest.raises(DataError, match=r"rows.jsonl.gz:[1-4]: the file is damaged or ends too early"):
        queries(path)
    path.write_bytes(b"no gzip at all")
    with pytest.raises(DataError, match=r"damaged or ends too early \(Not a gzipped file"):
        queries(path)


def test_a_text_file_that_ends_in_the_middle_of_a_row_has_a_faulty_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(TEXT[:-20])
    findings = Findings()
    assert len(list(read_rows(path, findings))) == 699
    assert (findings.counts, findings.faults[0].line) == ({"not_json": 1}, 700)


def test_faulty_parquet_rows_are_named_by_their_number(tmp_path):
    path = tmp_path / "rows.parquet"
    rows = [{"query": "q", "pos": ["p"]}, {"query": None, "pos": ["p"]}, {"query": "q", "pos": None}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    findings = Findings()
    assert len(list(read_rows(path, findings))) == 1
    assert [(fault.line, fault.case) for fault in findings.faults] == [(2, "missing_key"), (3, "missing_key")]


def test_a_folder_is_all_its_files_in_one_order(tmp_path):
    names = ["b/2.jsonl", "b/10.jsonl", "b.jsonl", "a.parquet", "B.json.gz"]
    beside = [".cache/x.jsonl", "README.md", "DATA.json", "_SUCCESS", "b/LICENSE.txt"]
    for name in reversed([*names, *beside]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [file.relative_to(tmp_path).as_posix() for file in data_files(tmp_path)]
    assert found == ["B.json.gz", "a.parquet", "b/10.jsonl", "b/2.jsonl", "b.jsonl"]


def test_nothing_is_passed_over_silently(tmp_path):
    with pytest.raises(DataError, match="it holds no file of rows"):
        data_files(tmp_path)
    (tmp_path / "rows.csv").touch()
    with pytest.raises(DataError, match=r"rows.csv: its name ends in '.csv'; valid endings: .jsonl"):
        data_files(tmp_path)
    with pytest.raises(DataError, match=r"missing.jsonl: does not exist"):
        data_files(tmp_path / "missing.jsonl")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n\n")
    with pytest.raises(DataError, match=r"it holds no rows; each needs 'query'"):
        Findings().check(empty, 0.5)


def test_length_buckets_of_file_names():
    assert length_bucket("MIRACL_len-0-500.jsonl") == "0-500"
    assert length_bucket("a/en_len-7000-inf.jsonl.gz") == "7000-inf"
    assert length_bucket("len-0-500.jsonl") is None
    assert length_bucket("en_len-0-500_more.jsonl") is None
