"""Tokenizes the rows of one file, once, however many processes ask for it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from filelock import FileLock

from lmk_core.layouts import PoolingTokenizer, TokenizedTexts
from lmk_train.data.cache.files import META, ROWS, TokenFile
from lmk_train.data.cache.fingerprints import cache_folder, cache_key, content_digest, tokenizer_digest
from lmk_train.data.reading import Findings, Row, read_rows
from lmk_train.data.reading.cases import SHOWN

Report = Callable[[Path, int, int], None]
"""Called with a file, how many bytes of it are tokenized, and its size."""

Item = TypeVar("Item")

_ROWS, _CHARACTERS = 1024, 4_000_000
"""What is tokenized at once, at most: of either."""


class FileCache(ABC):
    """Files that are tokenized once for each tokenizer, whichever training asks first.

    Args:
        tokenizer: Its plain ids are kept; landmarks come later, so that all granularities share them.
        max_length: Tokens of a text that are kept: as many as the longest layout can have.
        folder: Where they lie; see :func:`cache_folder`.
        max_faulty: ``data.max_faulty``.
        report: Told of progress.
    """

    def __init__(
        self,
        tokenizer: PoolingTokenizer,
        max_length: int,
        *,
        folder: str | None = None,
        max_faulty: float = 0.0,
        report: Report | None = None,
    ) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        self.folder = cache_folder(folder)
        self.max_faulty, self.report = max_faulty, report
        self._tokenizer_digest = tokenizer_digest(tokenizer)

    def made(self, path: Path) -> Path:
        """The folder of a file's tokens, which are made first where that was not done before.

        Raises:
            DataError: The file is damaged, holds nothing, or more faulty rows than ``max_faulty``.
            OSError: The tokens cannot be written.
        """
        content = content_digest(path, self.folder / "digests")
        place = self.folder / "tokens" / self._key(path, content, self._tokenizer_digest)
        found = self._find(place)
        if found is None:
            place.mkdir(parents=True, exist_ok=True)
            with _locked(place / "lock") as locked:
                found = self._find(place) or self._build(path, place, locked)
        return found

    @abstractmethod
    def _key(self, path: Path, content: str, tokenizer: str) -> str:
        """What the tokens of a file depend on."""

    @abstractmethod
    def _write(self, path: Path, folder: Path) -> None:
        """Tokenizes a file into ``folder``, and concludes."""

    def _find(self, place: Path) -> Path | None:
        """The tokens of the shortest cut that is long enough."""
        cuts = sorted(int(entry.name.removeprefix("cut-")) for entry in place.glob("cut-*"))
        return next((place / f"cut-{cut}" for cut in cuts if cut >= self.max_length), None)

    def _build(self, path: Path, place: Path, locked: bool) -> Path:
        target = place / f"cut-{self.max_length}"
        prefix = f".{socket.gethostname()}."
        if locked:  # what lies here of this machine is of killed processes; another machine may not see the lock
            for left in place.glob(f"{prefix}*"):
                shutil.rmtree(left, ignore_errors=True)
        working = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            self._write(path, working)
            working.chmod(0o755)
            try:
                working.rename(target)
            except OSError:
                if not target.is_dir():  # else another machine was faster
                    raise
        finally:
            shutil.rmtree(working, ignore_errors=True)
        return target

    def _conclude(self, path: Path, folder: Path, findings: Findings) -> None:
        """Says what was found, and sees all on the disk."""
        meta = {
            "schema": 1,
            "file": path.name,
            "rows": findings.rows,
            "scored": findings.scored,
            "counts": dict(findings.counts),
            "faults": [[fault.line, fault.problem, fault.case] for fault in findings.faults],
            "limit": self.max_length,
        }
        (folder / META).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
        for file in folder.iterdir():
            # Else a crash of the machine can leave an empty file in a folder that counts as whole.
            with file.open("rb") as stream:
                os.fsync(stream.fileno())

    def _progress(self, path: Path) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            if self.report is not None:
                self.report(path, done, total)

        return progress

    def _in_groups(self, read: Iterable[Item], size: Callable[[Item], int], findings: Findings) -> Iterator[list[Item]]:
        """As many as are tokenized at once; ``size`` is in characters."""
        group: list[Item] = []
        characters = 0
        for one in read:
            group.append(one)
            characters += size(one)
            if len(group) == _ROWS or characters >= _CHARACTERS:
                yield group
                group, characters = [], 0
            if not self.max_faulty and len(findings.faults) == SHOWN:
                raise findings.refusal(self.max_faulty, None)
        if group:
            yield group


class TokenCache(FileCache):
    """The rows of files, tokenized.

    Args:
        prompt: ``data.prompt``.
        tokenizer, max_length, folder, max_faulty, report: As of `FileCache`.
    """

    def __init__(
        self, tokenizer: PoolingTokenizer, max_length: int, *, prompt: str | None = None, **options: Any
    ) -> None:
        super().__init__(tokenizer, max_length, **options)
        self.prompt = prompt

    def open(self, path: Path) -> TokenFile:
        """The tokenized rows of a file, which is read and tokenized first where that was not done before.

        They are made in a folder of their own that is renamed when whole: a process that is killed leaves nothing that
        is taken for them, and of several that want to make them one does, and the others wait.

        Raises:
            DataError: The file is damaged, holds no row, or more faulty ones than ``max_faulty``.
        """
        tokens = TokenFile(self.made(path))
        tokens.findings_of(path).check(path, self.max_faulty)
        return tokens

    def _key(self, path: Path, content: str, tokenizer: str) -> str:
        return cache_key(path, content, tokenizer, self.prompt)

    def _write(self, path: Path, folder: Path) -> None:
        findings = Findings()
        by_sentence = self.tokenizer.pooling.granularity == "sentence"
        schema = _schema(by_sentence)
        with pa.OSFile(str(folder / ROWS), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for rows in self._groups(path, findings):
                writer.write_batch(self._tokenized(rows, schema))
        findings.check(path, self.max_faulty)
        self._conclude(path, folder, findings)

    def _groups(self, path: Path, findings: Findings) -> Iterator[list[tuple[int, Row]]]:
        rows = read_rows(path, findings, prompt=self.prompt, progress=self._progress(path))
        return self._in_groups(rows, lambda one: _characters(one[1]), findings)

    def _tokenized(self, rows: list[tuple[int, Row]], schema: pa.Schema) -> pa.RecordBatch:
        texts = [text for _, row in rows for text in used_texts(row)]
        tokens = self.tokenizer.tokenize(texts, max_length=self.max_length)
        counts = [2 + len(row.negatives) for _, row in rows]
        owners = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        columns: dict[str, Any] = {
            "line": pa.array([number for number, _ in rows], pa.int64()),
            "ids": _nested(owners, tokens.bounds, tokens.ids),
            "keys": pa.ListArray.from_arrays(owners, pa.array(text_keys(texts), pa.uint64())),
            "scores": pa.array([used_scores(row) for _, row in rows], pa.list_(pa.float64())),
        }
        if tokens.pieces is not None and tokens.piece_bounds is not None:
            columns["pieces"] = _nested(owners, tokens.piece_bounds, tokens.pieces.astype(np.int32))
        return pa.record_batch([columns[name] for name in schema.names], schema=schema)


def _characters(row: Row) -> int:
    return len(row.query) + len(row.positives[0]) + sum(map(len, row.negatives))


def used_texts(row: Row) -> list[str]:
    """The texts of a row that a training can use: the query, the first positive, the negatives."""
    return [row.query, row.positives[0], *row.negatives]


def used_scores(row: Row) -> list[float] | None:
    """The scores of these passages."""
    if row.positive_scores is None or row.negative_scores is None:
        return None
    return [row.positive_scores[0], *row.negative_scores]


def text_keys(texts: list[str]) -> list[int]:
    """A hash of 64 bits of each text, the same everywhere.

    Example:
        >>> text_keys(["a text"]) == text_keys(["a text"]), len(set(text_keys(["a text", "a text "])))
        (True, 2)
    """
    digests = (hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts)
    return [int.from_bytes(digest, "big") for digest in digests]


def tokenize_row(row: Row, tokenizer: PoolingTokenizer, max_length: int) -> tuple[TokenizedTexts, np.ndarray]:
    """The tokens of :func:`used_texts` and their keys, without a cache."""
    texts = used_texts(row)
    return tokenizer.tokenize(texts, max_length=max_length), np.array(text_keys(texts), dtype=np.uint64)


def _schema(by_sentence: bool) -> pa.Schema:
    nested = pa.list_(pa.list_(pa.int32()))
    fields = [
        ("line", pa.int64()),
        ("ids", nested),
        ("keys", pa.list_(pa.uint64())),
        ("scores", pa.list_(pa.float64())),
    ]
    return pa.schema([*fields, *([("pieces", nested)] if by_sentence else [])])


def _nested(owners: pa.Array, bounds: np.ndarray, values: np.ndarray) -> pa.ListArray:
    inner = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(values, pa.int32()))
    return pa.ListArray.from_arrays(owners, inner)


@contextlib.contextmanager
def _locked(path: Path) -> Generator[bool]:
    """Hold a lock that ends with the process; yields False where the file system has none."""
    lock = FileLock(path)
    try:
        lock.acquire()
    except (NotImplementedError, OSError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
