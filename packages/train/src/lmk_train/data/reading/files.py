"""Files of rows: which there are, and their records one after the other, whatever the format."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import IO, Any

from lmk_train.data.errors import DataError

ENDINGS = (".jsonl", ".json", ".parquet")
COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".bz2": "bz2", ".zst": "zstd"}
"""After ``.jsonl`` or ``.json``."""
VALID = ".jsonl, .json (JSON lines), these with .gz, .xz, .bz2 or .zst, and .parquet"

_NO_DATA = re.compile(
    r"^(\..*|_.*|README.*|LICENSE.*|.*\.md|DATA\.json|BUILT\.json|SHA256SUMS.*|dataset_infos?\.json)$"
)
"""Names that a folder of data may hold beside its data."""
_BUCKET = re.compile(r"_len-(\d+)-(\d+|inf)$")

Progress = Callable[[int, int], None]
"""Called with the bytes of a file that were read, and its size."""


def data_files(path: str | Path, *, plain_text: bool = False) -> list[Path]:
    """The file itself, or all files of rows in a folder and below, by their names' parts: the same order everywhere.

    Names that begin with a dot or an underscore, READMEs, licences and manifests are passed over.

    Args:
        path: A file or a folder.
        plain_text: Whether files of plain text are taken too.

    Raises:
        DataError: There is nothing at ``path``, no file in the folder, or a file of another kind.
    """
    if "://" in str(path):
        raise DataError(path, None, "data that lies elsewhere is streamed: say how, with data.stream_buffer", "no_file")
    path, valid = Path(path), f"{VALID}, and .txt" if plain_text else VALID
    if path.is_dir():
        inside = [(file.relative_to(path).parts, file) for file in path.rglob("*") if file.is_file()]
        files = [file for parts, file in sorted(inside) if not any(map(_NO_DATA.match, parts))]
        if not files:
            raise DataError(path, None, f"it holds no file of rows; valid endings: {valid}", "no_file")
    elif path.is_file():
        files = [path]
    else:
        raise DataError(
            path, None, f"does not exist; a file of rows ({valid}) or a folder of them is expected", "no_file"
        )
    for file in files:
        if file_format(file) is None and not (plain_text and is_plain_text(file)):
            raise DataError(file, None, f"its name ends in {file.suffix!r}; valid endings: {valid}", "unknown_ending")
    return files


def stem(path: str | Path) -> str:
    """A file's name without its endings; a folder's name as it is.

    Example:
        >>> stem("data/msmarco_len-0-500.jsonl.gz"), stem("data/bge-m3/en")
        ('msmarco_len-0-500', 'en')
    """
    path = Path(path)
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return path.stem if path.suffix in ENDINGS else path.name


def length_bucket(path: str | Path) -> str | None:
    """The lengths that the name of a file of bge-m3's data says it holds, half-open; ``None`` where it says none.

    Example:
        >>> length_bucket("nq_len-500-1000.jsonl"), length_bucket("nq_len-7000-inf.jsonl.gz"), length_bucket("nq.jsonl")
        ('500-1000', '7000-inf', None)
    """
    found = _BUCKET.search(stem(path))
    return f"{found[1]}-{found[2]}" if found else None


def wants_no_in_batch(path: str | Path) -> bool:
    """Whether FlagEmbedding would contrast these rows with their own negatives alone, by the name of file or folder.

    Example:
        >>> wants_no_in_batch("a/banking_no_in_batch_neg.jsonl"), wants_no_in_batch("b_no_in_batch_neg/rows.jsonl")
        (True, True)
    """
    path = Path(path)
    return any(name.endswith("no_in_batch_neg") for name in (stem(path), path.parent.name))


def read_records(path: str | Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """The records of a file with their line (of parquet: row) from 1. Blank lines are skipped.

    A record that is no JSON is given as a :class:`DataError` in its place, and reading goes on.

    Raises:
        DataError: The file is damaged, or ends in the middle: what follows can't be known.
    """
    path = Path(path)
    try:
        yield from _read_parquet(path, progress) if path.suffix == ".parquet" else _read_lines(path, progress)
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's own word
        raise DataError(path, None, f"it is damaged or ends too early ({error}); get it again", "truncated") from None


def file_format(path: PurePath) -> tuple[str, str | None] | None:
    """How a file is read, by its name: the ending and the compression; ``None`` where it is not."""
    if path.suffix in COMPRESSIONS:
        inner = path.with_suffix("").suffix
        return (inner, COMPRESSIONS[path.suffix]) if inner in {".jsonl", ".json"} else None
    return (path.suffix, None) if path.suffix in ENDINGS else None


def is_plain_text(path: PurePath) -> bool:
    """Whether a file is plain text, by its name."""
    return (path.with_suffix("") if path.suffix in COMPRESSIONS else path).suffix == ".txt"


def read_text_lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, str | DataError]]:
    """The lines of a plain text from 1, blank ones too; a `DataError` in the place of one that is no UTF-8.

    Raises:
        DataError: The file is damaged, or ends in the middle.
    """
    for number, line in _numbered(path, progress):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte {error.start + 1} of the line is {line[error.start : error.end]!r})"
            yield number, DataError(path, number, problem, "not_utf8")


def _read_lines(path: Path, progress: Progress | None) -> Iterator[tuple[int, Any]]:
    for number, line in _numbered(path, progress):
        if line.strip():
            yield number, parse_json(line, path, number)


def _numbered(path: Path, progress: Progress | None) -> Iterator[tuple[int, bytes]]:
    size = path.stat().st_size
    with path.open("rb") as raw:
        number = 0
        try:
            for number, line in enumerate(_decompressed(raw, path), start=1):
                if progress is not None and number % 256 == 0:
                    progress(raw.tell(), size)
                yield number, line
        except (EOFError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            problem = f"the file is damaged or ends too early ({error}); get it again"
            raise DataError(path, number + 1, problem, "truncated") from None
    if progress is not None:
        progress(size, size)


def _decompressed(raw: IO[bytes], path: Path) -> Iterable[bytes]:
    kind = COMPRESSIONS.get(path.suffix)
    if kind == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=raw)
    if kind == "xz":
        import lzma

        return _lzma_lines(lzma.LZMAFile(raw))
    if kind == "bz2":
        import bz2

        return bz2.BZ2File(raw)
    if kind == "zstd":
        return _zstd_lines(raw)
    return raw


def _lzma_lines(file: Any) -> Iterator[bytes]:
    import lzma

    try:
        yield from file
    except lzma.LZMAError as error:
        raise EOFError(str(error)) from None


def _zstd_lines(raw: IO[bytes]) -> Iterator[bytes]:
    import io

    import pyarrow as pa

    with pa.CompressedInputStream(raw, "zstd") as stream:
        yield from io.BufferedReader(stream)


def parse_json(line: bytes, path: Path, number: int) -> Any:
    """The value of a line, or the :class:`DataError` that says why there is none."""
    try:
        return json.loads(line)
    except UnicodeDecodeError as error:
        found = line[error.start : error.end]
        problem = f"not UTF-8 (byte {error.start + 1} of the line is {found!r}); each line is one JSON object in UTF-8"
        return DataError(path, number, problem, "not_utf8")
    except (ValueError, RecursionError) as error:
        return DataError(path, number, f"not JSON ({error}); each line is one JSON object", "not_json")


def _read_parquet(path: Path, progress: Progress | None) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            total, number = file.metadata.num_rows, 0
            size = path.stat().st_size
            for batch in file.iter_batches(batch_size=256):
                for value in batch.to_pylist():
                    number += 1
                    yield number, value
                if progress is not None and total:
                    progress(size * number // total, size)
    except pa.ArrowException as error:
        raise DataError(path, None, f"it is no whole parquet file ({error}); get it again", "truncated") from None
