"""Rows of sources that are not on this machine, read one after the other through `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from lmk_train.data.errors import DataError
from lmk_train.data.reading.cases import Findings
from lmk_train.data.reading.files import VALID, file_format
from lmk_train.data.reading.rows import Row, count_row, row_of


def is_remote(path: str) -> bool:
    """Whether a path names files elsewhere.

    Example:
        >>> is_remote("hf://datasets/org/name/data/train-*.parquet"), is_remote("/data/train.parquet")
        (True, False)
    """
    return "://" in path


def read_remote_rows(url: str, findings: Findings, *, prompt: str | None = None) -> Iterator[tuple[int, Row]]:
    """The rows behind a URL that ``datasets`` can stream, with their number from 1; a pattern names several files.

    Args:
        url: such as ``hf://datasets/org/name@revision/data/train-*.parquet``.
        findings: What is found is counted there.
        prompt: ``data.prompt``.

    Raises:
        DataError: ``datasets`` isn't installed, or can't read what is there.
    """
    try:
        import datasets
        from datasets.exceptions import DatasetsError
    except ImportError:
        problem = "streaming from elsewhere needs the package datasets: pip install 'lmk-train[streaming]'"
        raise DataError(url, None, problem) from None
    # A pattern may end in a star: what stands before it says how the files are read.
    kind = file_format(PurePosixPath(url.rstrip("*")))
    if kind is None:
        raise DataError(url, None, f"its ending says no format; valid endings: {VALID}", "unknown_ending")
    reader = "parquet" if kind[0] == ".parquet" else "json"
    number = 0
    try:
        records: Any = datasets.load_dataset(reader, data_files=url, split="train", streaming=True)
        for number, record in enumerate(records, start=1):
            try:
                row = row_of(record, url, number)
            except DataError as error:
                findings.add_fault(error)
                continue
            count_row(row, findings, prompt)
            yield number, row.prompted(prompt)
    except DataError:
        raise
    except (OSError, ValueError, StopIteration, DatasetsError) as error:
        problem = f"it can't be read any further ({type(error).__name__}: {str(error)[:300]})"
        raise DataError(url, number + 1, problem, "truncated") from None
