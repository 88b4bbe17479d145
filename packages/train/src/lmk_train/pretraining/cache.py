"""Tokenized texts with their words, mapped into memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_core.texts.words import tokenize_words
from lmk_train.data.cache.building import FileCache
from lmk_train.data.cache.files import META, findings_in
from lmk_train.data.reading import Findings
from lmk_train.pretraining.reading import CHARACTERS_A_TOKEN, check_findings, read_texts

FORMAT = 1
"""Raised when the files change, or what is read of a row."""

IDS, BEGINS, BOUNDS = "ids.bin", "begins.bin", "bounds.bin"


class TextFile:
    """The tokenized texts of a folder of the cache. It can be pickled: another process maps the same files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta: dict[str, Any] = json.loads((folder / META).read_bytes())
        self.bounds = np.fromfile(folder / BOUNDS, dtype=np.int64)
        self.ids = _mapped(folder / IDS, np.int32)
        self.begins = _mapped(folder / BEGINS, np.bool_)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """The ids of a text, and which of them begin a word."""
        own = slice(int(self.bounds[index]), int(self.bounds[index + 1]))
        return np.array(self.ids[own]), np.array(self.begins[own])

    def __reduce__(self) -> tuple[type[TextFile], tuple[Path]]:
        return type(self), (self.folder,)


class TextCache(FileCache):
    """The texts of files, tokenized, with their words."""

    def texts(self, path: Path) -> tuple[TextFile, Findings]:
        """The tokenized texts of a file, and what was found in it.

        Raises:
            DataError: The file is damaged, holds no text, or more faulty rows than ``max_faulty``.
        """
        file = TextFile(self.made(path))
        findings = findings_in(file.meta, path)
        check_findings(findings, path, self.max_faulty)
        return file, findings

    def _key(self, path: Path, content: str, tokenizer: str) -> str:
        kind = "".join(path.suffixes[-2:])
        return hashlib.sha256(json.dumps(["texts", FORMAT, kind, content, tokenizer]).encode()).hexdigest()[:32]

    def _find(self, place: Path) -> Path | None:
        """Not a longer one: where a plain text is cut depends on the length."""
        found = place / f"cut-{self.max_length}"
        return found if found.is_dir() else None

    def _write(self, path: Path, folder: Path) -> None:
        findings = Findings()
        lengths = [np.zeros(1, dtype=np.int64)]
        with (folder / IDS).open("wb") as ids_file, (folder / BEGINS).open("wb") as begins_file:
            for texts in self._text_groups(path, findings):
                ids, own, begins = tokenize_words(self.tokenizer.hf_tokenizer, texts, self.max_length)
                ids_file.write(ids.tobytes())
                begins_file.write(begins.tobytes())
                lengths.append(own)
        np.cumsum(np.concatenate(lengths)).astype(np.int64).tofile(folder / BOUNDS)
        check_findings(findings, path, self.max_faulty)
        self._conclude(path, folder, findings)

    def _text_groups(self, path: Path, findings: Findings) -> Iterator[list[str]]:
        longest = CHARACTERS_A_TOKEN * self.max_length
        read = read_texts(path, findings, characters=longest, progress=self._progress(path))
        return self._in_groups((text for _, text in read), len, findings)


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)
