"""Vectors in a file, for more texts than fit in memory: written shard by shard, resumed after any kill.

While it grows the file is called ``.NAME.partial``; the record ``NAME.json`` says how many rows of it are finished, for
which settings and which texts. A row counts when the record says so, which is after the row is on the disk. At the end
the file is renamed to ``NAME``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray

from lmk_core.layouts.sentences import splitter_to_text
from lmk_core.texts import SpecialTokens
from lmk_core.texts.reading import Text, check_text

if TYPE_CHECKING:
    from lmk_core.embedder.embedder import Embedder
    from lmk_core.embedder.options import EncodeOptions

try:
    import fcntl
except ImportError:  # not on Windows: two writers are not told from one there
    fcntl = None

SHARD_TEXTS = 16_384
SHARD_CHARACTERS = 16_000_000
_HEADER_BYTES = 128
_FORMAT = 1
# A file system without locks, as some of clusters are.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
# Of a model's config: where it came from and what wrote it, and how it is run.
_SAYS_NOTHING = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")


class VectorFileError(ValueError):
    """A file of vectors that cannot be gone on with: it is of other texts, another model, or no such file."""


class VectorFile:
    """The file of one encoding.

    Args:
        path: ends in ``.npy``.
        dim: width of the vectors.
        settings: everything that decides what a text's vector is.

    Raises:
        VectorFileError: if there is something at ``path`` that this encoding did not write.
    """

    def __init__(self, path: Path, dim: int, settings: Mapping[str, Any]) -> None:
        if path.suffix != ".npy":
            raise VectorFileError(f"{path}: the file of vectors ends in .npy")
        self.path = path
        self.record_path = path.with_name(path.name + ".json")
        self.partial = path.with_name(f".{path.name}.partial")
        self.dim = dim
        self.settings = json.loads(json.dumps(settings))
        self.shards: list[dict[str, Any]] = []
        self.done = False
        self._read_record()

    @property
    def rows(self) -> int:
        """How many rows are finished."""
        return sum(shard["rows"] for shard in self.shards)

    def unfinished(self, texts: Iterator[Text]) -> Iterator[list[Text]]:
        """The shards of texts that are still to be done, after a look at those that are done.

        Raises:
            VectorFileError: if the texts of the finished rows are not those that were encoded.
        """
        row = 0
        for shard in self.shards:
            part = list(islice(texts, shard["rows"]))
            if len(part) < shard["rows"] or texts_digest(part) != shard["texts"]:
                raise VectorFileError(
                    f"{self.record_path}: the texts have changed: rows {row} to {row + shard['rows'] - 1} are not of "
                    f"the texts given now; delete it and {self.partial if not self.done else self.path} to start anew"
                )
            row += len(part)
        for part in text_shards(texts):
            if self.done:
                raise VectorFileError(
                    f"{self.record_path}: the texts have changed: the finished file has {row} rows, and there are more "
                    f"texts now; delete it and {self.path} to start anew"
                )
            yield part

    @contextmanager
    def writing(self) -> Generator[Callable[[list[Text], NDArray[np.float32]], None]]:
        """Gives a function that adds a shard: its texts and their vectors [texts, dim].

        Raises:
            VectorFileError: if another process writes it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.partial.open("ab") as lock:
            self._lock(lock)
            with self.partial.open("r+b") as stream:
                if os.fstat(stream.fileno()).st_size < self._size(self.rows) and self.rows:
                    raise VectorFileError(
                        f"{self.partial}: shorter than the {self.rows} rows that {self.record_path} says are finished; "
                        "delete both to start anew"
                    )
                stream.truncate(self._size(self.rows))
                yield lambda texts, vectors: self._add(stream, texts, vectors)

    def _lock(self, stream: BinaryIO) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise VectorFileError(f"{self.partial}: another process is writing it") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise

    def finish(self) -> NDArray[np.float32]:
        """Give the file its name and open it, memory-mapped and read-only."""
        if not self.done:
            if self.partial.exists():
                with self.partial.open("r+b") as stream:
                    stream.truncate(self._size(self.rows))
                    stream.write(_header(self.rows, self.dim))
                    stream.flush()
                    os.fsync(stream.fileno())
                self.partial.replace(self.path)
            self.done = True
            self._write_record()
        return self.open()

    def open(self) -> NDArray[np.float32]:
        """The finished file, memory-mapped and read-only.

        Raises:
            VectorFileError: if it is not there any more, or is not what was written.
        """
        try:
            vectors: NDArray[np.float32] = np.load(self.path, mmap_mode="r" if self.rows else None)
        except FileNotFoundError:
            raise VectorFileError(
                f"{self.path}: is not there, and {self.record_path} says that it is finished; "
                "delete the record to start anew"
            ) from None
        except ValueError as error:
            raise VectorFileError(f"{self.path}: is no file of vectors: {error}") from error
        if (vectors.shape, vectors.dtype) != ((self.rows, self.dim), np.dtype("<f4")):
            raise VectorFileError(
                f"{self.path}: holds {vectors.dtype} {vectors.shape}, and {self.record_path} says float32 "
                f"{(self.rows, self.dim)}; delete both to start anew"
            )
        return vectors

    def _size(self, rows: int) -> int:
        return _HEADER_BYTES + rows * self.dim * 4

    def _add(self, stream: BinaryIO, texts: list[Text], vectors: NDArray[np.float32]) -> None:
        stream.seek(self._size(self.rows))
        stream.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        stream.flush()
        os.fsync(stream.fileno())
        self.shards.append({"rows": len(texts), "texts": texts_digest(texts)})
        self._write_record()

    def _read_record(self) -> None:
        if not self.record_path.exists():
            if self.path.exists():
                raise VectorFileError(f"{self.path}: exists, and there is no {self.record_path.name} that says of what")
            return
        try:
            record = json.loads(self.record_path.read_text(encoding="utf-8"))
            settings, self.shards, self.done = dict(record["settings"]), record["shards"], record["done"]
        except (ValueError, KeyError, TypeError) as error:
            raise VectorFileError(f"{self.record_path}: is no record of an encoding: {error!r}") from error
        changed = [key for key in {*settings, *self.settings} if settings.get(key) != self.settings.get(key)]
        if changed:
            said = "; ".join(
                f"{key}: {settings.get(key)!r} then, {self.settings.get(key)!r} now" for key in sorted(changed)
            )
            raise VectorFileError(
                f"{self.record_path}: the vectors are of another encoding ({said}); "
                f"choose another file, or delete it and {self.path if self.done else self.partial} to start anew"
            )
        # Killed between the renaming and the record.
        if not self.done and self.path.exists() and not self.partial.exists():
            self.open()
            self.done = True

    def _write_record(self) -> None:
        record = {"format": _FORMAT, "settings": self.settings, "done": self.done, "shards": self.shards}
        temporary = self.record_path.with_name(f".{self.record_path.name}.{uuid4().hex[:8]}")
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(record, stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self.record_path)


def text_shards(texts: Iterator[Any]) -> Iterator[list[Text]]:
    """Cut a stream of texts into shards of a bounded number of texts and characters.

    Raises:
        TypeError: for what is no text.
    """
    part: list[Text] = []
    characters = 0
    for row, text in enumerate(texts):
        check_text(text, row)
        part.append(text)
        characters += len(text) if isinstance(text, str) else sum(map(len, text))
        if len(part) >= SHARD_TEXTS or characters >= SHARD_CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part


def texts_digest(texts: list[Text]) -> str:
    """Says whether texts are the same."""
    digest = hashlib.sha256()
    for text in texts:
        for part in (text,) if isinstance(text, str) else ("pair", *text):
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "little"))
            digest.update(raw)
    return digest.hexdigest()


def encoding_settings(embedder: Embedder, options: EncodeOptions) -> dict[str, Any]:
    """Everything that decides what a text's vector is."""
    settings = {
        "model": model_digest(embedder.module, embedder.tokenizer.hf_tokenizer),
        "pooling": embedder.pooling.to_dict(),
        "max_length": options.get("max_length") or embedder.max_length,
        "dim": options.get("dim") or embedder.dim,
        "prompt": options.get("prompt"),
        "include_prompt": options.get("include_prompt", embedder.include_prompt),
        "bf16": options.get("bf16", False),
    }
    splitter = embedder.tokenizer.sentence_splitter
    if embedder.pooling.granularity == "sentence" and splitter is not None:
        settings["sentence_splitter"] = splitter_to_text(splitter)
    return settings


def model_digest(module: Any, tokenizer: Any) -> str:
    """Says whether weights, configuration and tokenizer are the same."""
    digest = hashlib.sha256()
    config = module.encoder.config.to_diff_dict()
    known = {key: value for key, value in config.items() if key not in _SAYS_NOTHING}
    digest.update(json.dumps(known, sort_keys=True, default=str).encode())
    for name, value in sorted(module.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        raw = value.detach().cpu().contiguous()
        digest.update(memoryview(raw.view(-1).view(torch.uint8).numpy()))
    backend = getattr(tokenizer, "backend_tokenizer", None)
    words = tokenizer.get_vocab() if backend is None else json.loads(backend.to_str())
    if backend is not None:
        # How a batch was padded and cut that somebody made with it; a layout does both itself.
        words |= {"padding": None, "truncation": None}
    digest.update(json.dumps(words, sort_keys=True).encode())
    digest.update(repr(SpecialTokens.from_tokenizer(tokenizer)).encode())
    return digest.hexdigest()


def _header(rows: int, dim: int) -> bytes:
    """The header of a ``.npy`` file, always of the same length."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dim}), }}"
    padded = text.ljust(_HEADER_BYTES - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin1")
